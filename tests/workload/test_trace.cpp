#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "core/error.h"
#include "tests/support/support.h"
#include "workload/trace.h"

namespace pagedinfer {
namespace {

const std::string kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n";

std::vector<TraceRow> read(const std::string& text, int count) {
  std::istringstream from(text);
  return read_trace(from, "a.csv", count);
}

std::string refusal_of(const std::string& text, int count) {
  try {
    read(text, count);
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace

TEST_CASE("a trace's times count from its first row, over midnight and the end of a month") {
  const auto rows = read(kHeader + "2024-02-29 23:59:59.5000000,12,3\r\n" +
                             "2024-02-29 23:59:59.7500000,1,1\n2024-03-01T00:00:01,70000,9\nbad\n",
                         3);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].time == 0);
  CHECK(rows[1].time == doctest::Approx(0.25));
  CHECK(rows[2].time == doctest::Approx(1.5));
  CHECK(rows[0].prompt_tokens == 12);
  CHECK(rows[0].output_tokens == 3);
  CHECK(rows[2].prompt_tokens == 70000);
}

TEST_CASE("a bad row of a trace is refused with its file, its line and what was expected") {
  const std::string good = "2023-11-16 18:17:03.9799600,4808,10\n";
  CHECK(refusal_of("", 1).starts_with("a.csv: line 1: found nothing, expected TIMESTAMP,"));
  CHECK(refusal_of("time,in,out\n" + good, 1).starts_with("a.csv: line 1: found time,in,out"));
  const auto refused = [&](const std::string& row) {
    const std::string text = refusal_of(kHeader + good + row + "\n", 2);
    CHECK(text.starts_with("a.csv: line 3: found "));
    return text.substr(text.find("found"));
  };
  CHECK(refused("2023-11-16 18:17:04,5") ==
        "found 2023-11-16 18:17:04,5, expected three values: "
        "TIMESTAMP,ContextTokens,GeneratedTokens");
  CHECK(refused("2023-11-16 18:17:04,5,6,7").find("three values") != std::string::npos);
  CHECK(refused("2023-11-16 18:17:04,0,6") == "found 0, expected a number of tokens, at least 1");
  CHECK(refused("2023-11-16 18:17:04,5,x") == "found x, expected a number of tokens, at least 1");
  CHECK(refused("2023-11-16 18:17:04,5,") ==
        "found nothing, expected a number of tokens, at least 1");
  for (const char* time :
       {"yesterday", "2023-11-31 18:17:04", "2023-11-16 24:17:04", "2023-11-16 18:17",
        "2023-11-16 18:17:04.", "2023-11-16 18:17:04.5x", "2023-11-16 18:17:-4", ""}) {
    CAPTURE(time);
    CHECK(refused(std::string(time) + ",5,6").find("expected a time, as in") != std::string::npos);
  }
  CHECK(refused("2023-11-16 18:17:03,5,6").find("not before that of the row above") !=
        std::string::npos);
  CHECK(refusal_of(kHeader + good, 2) == "a.csv: found 1 rows, expected at least 2 (--requests)");
  CHECK_THROWS_WITH_AS(read_trace("/nowhere.csv", 1), "/nowhere.csv: No such file or directory",
                       Error);
  CHECK_THROWS_WITH_AS(read_trace("/usr", 1), "/usr: found a folder, expected a CSV file", Error);
}

TEST_CASE("a line without an end is not read for ever") {
  CHECK_THROWS_AS(read_trace("/dev/zero", 1), Error);
  CHECK(refusal_of(std::string(1 << 20, 'x'), 1).starts_with("a.csv: line 1: found xxx"));
  CHECK(refusal_of(kHeader + std::string(1 << 20, '1'), 1).starts_with("a.csv: line 2: found 111"));
}

TEST_CASE("the public traces are read to their last row") {
  for (const auto& [name, count] : {std::pair{"code", 8819}, std::pair{"conv", 19366}}) {
    const std::string path =
        shared_data("traces/AzureLLMInferenceTrace_" + std::string(name) + ".csv");
    if (!std::filesystem::exists(path)) {
      MESSAGE("SKIPPED: ", path);
      continue;
    }
    const auto rows = read_trace(path, count);
    CHECK(rows.size() == static_cast<size_t>(count));
    CHECK(rows.back().time > 3000);
    CHECK(rows.back().time < 4000);
  }
}

}  // namespace pagedinfer
