#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <random>
#include <string>

#include "core/error.h"
#include "io/json_file.h"
#include "io/json_parse.h"

using namespace pagedinfer;

namespace {

// Reads "a" of a file with this value in every way.
struct Asked {
  explicit Asked(const std::string& value)
      : file("DIR/config.json", fmt::format(R"({{"b": 1, "a": {}, "c": "x"}})", value)) {}

  std::string integer_error() const {
    try {
      return fmt::format("{}", file.root().integer("a", 0, 100));
    } catch (const Error& error) {
      return error.what();
    }
  }
  std::string number_error() const {
    try {
      return fmt::format("{}", file.root().number("a", -1e300, 1e300));
    } catch (const Error& error) {
      return error.what();
    }
  }

  JsonFile file;
};

constexpr const char* kHuge[] = {"1000000000000000019884624838656",
                                 "-1000000000000000019884624838656",
                                 "18446744073709551616",
                                 "-9223372036854775809",
                                 "1e400",
                                 "-1e400",
                                 "1E+99999999999999999999",
                                 "1.7976931348623159e308",
                                 "NaN",
                                 "Infinity",
                                 "-Infinity"};

}  // namespace

TEST_CASE("a number of any size in an unused field is no error") {
  std::string list;
  for (const std::string number : kHuge) {
    CAPTURE(number);
    const Asked asked(number);
    CHECK(asked.file.root().integer("b", 0, 9) == 1);
    CHECK(asked.file.root().string("c") == "x");
    list += (list.empty() ? "" : ",") + number;
  }
  for (const std::string& nested : {"[" + list + "]", "{\"a\": [[" + list + "]], \"b\": NaN}"}) {
    CHECK(Asked(nested).file.root().string("c") == "x");
  }
  const std::string digits(5000, '7');
  CHECK(Asked(digits).file.root().string("c") == "x");
}

TEST_CASE("an integer beyond 64 bits is a number with its value") {
  CHECK(Asked("1000000000000000019884624838656").file.root().number("a", 0, 1e31) == 1e30);
  CHECK(Asked("-18446744073709551616").file.root().number("a", -1e31, 0) ==
        -18446744073709551616.0);
  CHECK(Asked("18446744073709551615").file.root().number("a", 0, 1e31) == 18446744073709551616.0);
  CHECK(Asked("1e-400").file.root().number("a", 0, 0) == 0.0);
  CHECK(Asked("12345678901234567890123e-22").file.root().number("a", 0, 2) ==
        doctest::Approx(1.2345678901234567));
}

TEST_CASE("a number of any size that is asked for is in its range or an error that names it") {
  CHECK(Asked("1000000000000000019884624838656").integer_error() ==
        "DIR/config.json: a: found 1e+30, expected an integer from 0 to 100");
  for (const std::string number : kHuge) {
    CAPTURE(number);
    CHECK(Asked(number).integer_error().starts_with("DIR/config.json: a: found "));
  }
  for (const char* number : {"NaN", "Infinity", "-Infinity", "1e999", "-1e999"}) {
    CAPTURE(number);
    CHECK(
        Asked(number).number_error() ==
        "DIR/config.json: a: found not a finite number, expected a number from -1e+300 to 1e+300");
    CHECK(Asked("[" + std::string(number) + "]").integer_error().find("a: found ") !=
          std::string::npos);
  }
}

TEST_CASE("what looks like a number in a string is the string") {
  const std::string text = "NaN, Infinity, \\\" 1000000000000000019884624838656 1e400 \\\\";
  const std::string value = fmt::format(R"("{}", "d": 1e999)", text);
  CHECK(Asked(value).file.root().string("a") ==
        "NaN, Infinity, \" 1000000000000000019884624838656 1e400 \\");
}

TEST_CASE("beside a huge number what is not JSON stays an error") {
  for (const std::string value : {"NaN, 01",
                                  "NaN, \"d\": 01",
                                  "NaN, \"d\": 1.",
                                  "NaN, \"d\": -",
                                  "NaN, \"d\": .5",
                                  "NaN, \"d\": 1e",
                                  "NaN, \"d\": --1e999",
                                  "NaNs",
                                  "5NaN",
                                  "NaN5",
                                  "-5Infinity",
                                  "NaNNaN",
                                  "-NaN",
                                  "+Infinity",
                                  "Infinit",
                                  "nan",
                                  "1e400x",
                                  "1e400 1",
                                  "1e400.0",
                                  "00000000000000000000000000000",
                                  "1e999, \"d\": \"x",
                                  "1e999, \"d\": \"\\"}) {
    CAPTURE(value);
    CHECK_THROWS_WITH_AS(Asked{value}, doctest::Contains("DIR/config.json: not JSON"), Error);
  }
}

TEST_CASE("a huge number changes nothing else of a random document") {
  std::mt19937 random(4);
  const std::string scalars[] = {
      "0",    "-0",   "1.5e-3",   "18446744073709551615", "1E+2",    "1e-999",
      "true", "null", R"("NaN")", R"("\\\" 1e999")",      R"("\\")", R"("\u00e9, -Infinity")"};
  const std::function<std::string(int)> value = [&](int depth) {
    if (depth == 0 || random() % 3 == 0) return scalars[random() % std::size(scalars)];
    std::string text;
    const bool is_list = random() % 2 == 0;
    for (auto i = random() % 4; i > 0; --i) {
      text += (text.empty() ? "" : " ,\n") + std::string(is_list ? "" : R"("1e999\"":)") +
              value(depth - 1);
    }
    return is_list ? "[" + text + "]" : "{" + text + "}";
  };
  for (int trial = 0; trial < 500; ++trial) {
    const std::string text = value(4);
    CAPTURE(text);
    simdjson::dom::parser plain, ours;
    simdjson::dom::element a, b;
    REQUIRE(plain.parse(text).get(a) == simdjson::SUCCESS);
    REQUIRE(parse_model_json(ours, simdjson::padded_string("[" + text + ", NaN]")).get(b) ==
            simdjson::SUCCESS);
    CHECK(simdjson::minify(b.at(0)) == simdjson::minify(a));
    CHECK(is_beyond_double(b.at(1)));
  }
}
