#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <random>
#include <string>

#include "request/line_arrivals.h"
#include "request/request_parser.h"

using namespace pagedinfer;

namespace {

LineArrival add(LineArrivals& arrivals, const std::string& text, int64_t number = 1) {
  const simdjson::padded_string padded(text);
  return arrivals.add(padded, number);
}

}  // namespace

TEST_CASE("a line without a valid time arrives with the line before") {
  LineArrivals arrivals;
  for (const char* first : {R"({"prompt":"x"})", R"({"prompt":"\"arrival_s\":3"})", "arrival_s"}) {
    CHECK_FALSE(add(arrivals, first).time);
  }
  CHECK(add(arrivals, R"({"prompt":"x","arrival_s":1})").time == 1);
  for (const char* none :
       {R"({"prompt":"x"})", R"({"arrival_s":-1})", R"({"arrival_s":"7"})", R"({"arrival_s":null})",
        R"({"arrival_s":[7]})", R"({"arrival_s":true})", R"({"arrival_s":1e999})",
        R"({"arrival_s":7)", R"(["arrival_s", 7])", R"("arrival_s")", "no JSON \"arrival_s\": 7",
        R"({"custom_id":"a","body":{"arrival_s":7}})", R"({"arrival_s":7,"arrival_s":"x"})"}) {
    CAPTURE(none);
    const LineArrival arrival = add(arrivals, none);
    CHECK(arrival.time == 1);
    CHECK(arrival.fault == "");
  }
  CHECK(add(arrivals, R"({"arrival_s":9,"arrival_s":1.25})").time == 1.25);
  CHECK(add(arrivals, R"({"custom_id":"a","arrival_s":2,"body":{"arrival_s":7}})").time == 2);
}

TEST_CASE("a time before that of an earlier line names both lines, and does not count") {
  LineArrivals arrivals;
  CHECK(add(arrivals, R"({"arrival_s":2.5})", 3).fault == "");
  CHECK(add(arrivals, R"({"arrival_s":2.5})", 4).fault == "");
  CHECK(add(arrivals, R"({"prompt":"x"})", 5).fault == "");
  for (const int64_t line : {7, 9}) {
    const LineArrival early = add(arrivals, R"({"arrival_s":2.25})", line);
    CHECK(early.time == 2.5);
    CHECK(early.fault ==
          fmt::format("line {}: arrival_s: found 2.25, expected at least 2.5, which line 4 says",
                      line));
  }
  CHECK(add(arrivals, R"({"arrival_s":2.75})", 10).fault == "");
}

TEST_CASE("a time more than seven days after the one before is a fault, and does not count") {
  constexpr double kDays = 7 * 86400;
  LineArrivals arrivals;
  const auto fault_of = [&](const std::string& time, int64_t number) {
    return add(arrivals, fmt::format(R"({{"arrival_s":{}}})", time), number).fault;
  };
  for (const char* late : {"604800.5", "999999999", "1e300", "18446744073709551615"}) {
    const std::string fault = fault_of(late, 2);
    CHECK(fault.starts_with("line 2: arrival_s: found "));
    CHECK(fault.ends_with(", expected at most 604800, 7 days after the start"));
    CHECK_FALSE(add(arrivals, R"({"prompt":"x"})", 3).time);
  }
  CHECK(fault_of("604800", 4) == "");
  CHECK(fault_of("1209600.25", 5) ==
        "line 5: arrival_s: found 1209600.25, expected at most 1209600, 7 days after what line 4 "
        "says");
  CHECK(add(arrivals, R"({"prompt":"x"})", 6).time == kDays);
  CHECK(add(arrivals, R"({"arrival_s":1209600})", 7).time == 2 * kDays);
}

TEST_CASE("the parser takes as a time what counts as one") {
  RequestParser parser({});
  for (const char* value : {"0", "-0.0", "1", "0.5", "1e300", "-1", "-0.001", "\"1\"", "true", "[]",
                            "{}", "18446744073709551615"}) {
    CAPTURE(value);
    LineArrivals arrivals;
    const std::string text = fmt::format(R"({{"prompt":"x","arrival_s":{}}})", value);
    const simdjson::padded_string padded(text);
    const bool is_time = parser.parse(padded, 0, 1).error.code.empty();
    const LineArrival arrival = arrivals.add(padded, 1);
    CHECK(is_time == (arrival.time.has_value() || !arrival.fault.empty()));
  }
}
