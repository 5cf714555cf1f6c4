#include <doctest/doctest.h>

#include <string>

#include "jinja/from_json.h"
#include "jinja/python_text.h"

using namespace pagedinfer;

namespace {

// json.dumps(json.loads(text)).
std::string again(const std::string& text) {
  jinja::Budget budget{jinja::Limits()};
  return jinja::to_json(jinja::from_json(text, false), {}, budget).text;
}

}  // namespace

TEST_CASE("JSON text becomes the value that Python reads") {
  for (const char* text :
       {"null", "true", "false", "0", "-1", "9223372036854775807", "-9223372036854775808",
        "18446744073709551615", "1.5", "1e+20", "0.1", "-0.0", "\"\"", "[]", "{}",
        "[1, [2, {\"b\": null, \"a\": \"x\"}]]", "\"é 中 😀\"", "\"\\\"\\\\\\n\\u0001\""}) {
    CAPTURE(text);
    CHECK(again(text) == text);
  }
  CHECK(again(" [ 1 ,\n2 ] ") == "[1, 2]");
  CHECK(again("1E5") == "100000.0");
  CHECK(again("\"\\u00e9\\ud83d\\ude00\\/\"") == "\"é😀/\"");
}

TEST_CASE("a key that comes twice has its last value at its first place") {
  CHECK(again(R"({"a": 1, "b": 2, "a": 3})") == R"({"a": 3, "b": 2})");
  std::string twice = "{", once = "{";
  for (int i = 0; i < 200; ++i) {
    const std::string key = "\"k" + std::to_string(i % 100) + "\": ";
    twice += (i > 0 ? ", " : "") + key + std::to_string(i);
    if (i < 100) once += (i > 0 ? ", " : "") + key + std::to_string(i + 100);
  }
  CHECK(again(twice + "}") == once + "}");
}

TEST_CASE("what is no JSON text is refused") {
  for (const char* text :
       {"",          "[",   "[1",   "[1,]",     "{\"a\"}", "{a: 1}",  "01",          "1.",
        ".5",        "+1",  "nul",  "\"",       "\"\n\"",  "\"\\x\"", "\"\\ud800\"", "\"\\udc00\"",
        "\"\\u12\"", "1 2", "\xff", "\"\xff\"", "--1",     "1e",      "'a'"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(jinja::from_json(text, false), const jinja::TemplateError&);
  }
  const std::string deep(100'000, '[');
  CHECK_THROWS_AS(jinja::from_json(deep, false), const jinja::TemplateError&);
}
