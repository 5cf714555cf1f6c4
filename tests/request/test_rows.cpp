// Lines as rows of a table.
#include <doctest/doctest.h>

#include <string>

#include "request/request_parser.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

ParsedLine parse(RequestParser& parser, const std::string& line) {
  const std::string padded = line + std::string(64, ' ');
  return parser.parse(std::string_view(padded).substr(0, line.size()), 0, 1);
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

}  // namespace
}  // namespace pagedinfer
