// Lines as rows of a table, and the keys of a line that its record repeats.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "request/kept_keys.h"
#include "request/request_parser.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

ParsedLine parse(RequestParser& parser, const std::string& line) {
  const std::string padded = line + std::string(64, ' ');
  return parser.parse(std::string_view(padded).substr(0, line.size()), 0, 1);
}

std::string kept_of(const std::vector<std::string>& keep, const std::string& line) {
  RequestParser parser({}, {.keep = parse_kept_keys(keep)});
  return parse(parser, line).request.head.kept;
}

TEST_CASE("the keys of a row are columns, whatever they are called") {
  SamplingParams defaults;
  defaults.max_tokens = 5;
  RequestParser parser(defaults, {.strict = true, .rows = true});
  const std::string line =
      R"({"temperature":"21 C","max_tokens":900,"prompt":["x"],"messages":1,"custom_id":"a",)"
      R"("url":"/v2","body":"b","bad_words":["c"],"seed":7,"stop":3,"escape_special":false})";
  const ParsedLine parsed = parse(parser, line);
  REQUIRE_FALSE(parsed.failed());
  CHECK(parsed.request.row == line);
  CHECK(parsed.request.head.id_json.empty());
  CHECK(parsed.request.head.form == RecordForm::kPlain);
  CHECK_FALSE(parsed.request.prompt);
  CHECK_FALSE(parsed.request.has_messages);
  CHECK(parsed.request.sampling.max_tokens == 5);
  CHECK(parsed.request.sampling.temperature == 0);
  CHECK(parsed.request.sampling.stop.empty());
  CHECK(parsed.request.escape_special == true);
  CHECK(parser.take_unknown_keys().empty());
}

TEST_CASE("the id of a row is a string or an integer, and otherwise a column") {
  RequestParser parser({}, {.names = {.id = "key"}, .rows = true});
  const auto id_of = [&](const std::string& line) {
    const ParsedLine parsed = parse(parser, line);
    CHECK_FALSE(parsed.failed());
    return parsed.request.head.id_json;
  };
  CHECK(id_of(R"({"key":"a","id":"b"})") == R"("a")");
  CHECK(id_of(R"({"key":18446744073709551615})") == "18446744073709551615");
  CHECK(id_of(R"({"id":"b"})").empty());
  for (const std::string value : {"1.5", "null", "true", "[1]", R"({"a":1})"}) {
    CHECK(id_of(R"({"key":)" + value + "}").empty());
  }
  CHECK(parse(parser, R"({"arrival_s":"noon"})").error.code == "invalid_value");
  CHECK(parse(parser, "[1]").error.code == "not_an_object");
}

TEST_CASE("kept keys are the bytes of the line, without the space between tokens") {
  const std::string line =
      "{ \"b\" : 1.50 ,\t\"a\":\"\\u00e4 \\/ \xC3\xA4  x\",\r\"c\": [ 1e2 , {\"d\" : -0.0} ],"
      "\"\\u0064\": null, \"e\":12345678901234567890 }";
  CHECK(kept_of({"all"}, line) ==
        "{\"b\":1.50,\"a\":\"\\u00e4 \\/ \xC3\xA4  x\",\"c\":[1e2,{\"d\":-0.0}],\"\\u0064\":null,"
        "\"e\":12345678901234567890}");
  CHECK(kept_of({"c, b"}, line) == R"({"b":1.50,"c":[1e2,{"d":-0.0}]})");
  CHECK(kept_of({"d"}, line) == R"({"\u0064":null})");
  CHECK(kept_of({"e,nothing"}, line) == R"({"e":12345678901234567890})");
  CHECK(kept_of({"e", "b"}, line) == R"({"b":1.50,"e":12345678901234567890})");
  CHECK(kept_of({"nothing"}, line) == "{}");
  CHECK(kept_of({}, line).empty());
  CHECK(kept_of({"a"}, R"({"a":1,"b":2,"a":{"b":[]}})") == R"({"a":{"b":[]}})");
  CHECK(kept_of({"all"}, R"( {} )") == "{}");
  CHECK(kept_of({"a"}, "{}") == "{}");
}

TEST_CASE("a line keeps its keys if its settings are wrong, and none if it is no object") {
  const ParsedLine wrong = [] {
    RequestParser parser({}, {.keep = {.names = {"a", "body"}}});
    return parse(parser, R"({"custom_id":"x","url":"/v1/completions","body":{"n":0},"a":[1]})");
  }();
  CHECK(wrong.failed());
  CHECK(wrong.request.head.kept == R"({"body":{"n":0},"a":[1]})");
  CHECK(kept_of({"all"}, R"({"a":1,"prompt":7})") == R"({"a":1,"prompt":7})");
  for (const std::string line : {"[1]", "{\"a\":", "\"a\"", "{\"a\":\"\xFF\"}"}) {
    CHECK(kept_of({"all"}, line).empty());
  }
}

}  // namespace
}  // namespace pagedinfer
