#include <doctest/doctest.h>
#include <simdjson.h>

#include <cstring>
#include <limits>
#include <random>

#include "core/json.h"

using namespace pagedinfer;

namespace {

std::string read_back(const std::string& json) {
  simdjson::dom::parser parser;
  return std::string(std::string_view(parser.parse(json)));
}

std::string number(double value) {
  std::string out;
  append_json_number(out, value);
  return out;
}

void append_character(std::string& out, uint32_t c) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xC0 | c >> 6), put(0x80 | (c & 63));
  if (c < 0x10000) return put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
  put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 63)), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
}

}  // namespace

TEST_CASE("a string written as JSON reads back as itself") {
  std::mt19937 random(1);
  const uint32_t limits[] = {0x20, 0x80, 0x800, 0x10000, 0x110000};
  for (int run = 0; run < 2000; ++run) {
    std::string text;
    for (auto left = random() % 40; left > 0; --left) {
      const uint32_t c = random() % limits[random() % 5];
      if (c < 0xD800 || c > 0xDFFF) append_character(text, c);
    }
    std::string json;
    append_json_string(json, text);
    CHECK(read_back(json) == text);
    CHECK(json.find('\n') == std::string::npos);
  }
}

TEST_CASE("bytes that are not UTF-8 still give valid JSON, and keep what is valid") {
  std::string json;
  append_json_string(json, "a\xFFz\xC3\xA9\xED\xA0\x80\xF0\x9F\x98");
  CHECK(json == "\"a\xEF\xBF\xBDz\xC3\xA9" +
                    std::string("\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
                                "\xEF\xBF\xBD\""));
  std::mt19937 random(2);
  for (int run = 0; run < 5000; ++run) {
    std::string bytes(random() % 12, '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(random() % 3 ? 0x80 + random() % 128 : random());
    }
    json.clear();
    append_json_string(json, bytes);
    CHECK(simdjson::validate_utf8(json));
    if (simdjson::validate_utf8(bytes)) CHECK(read_back(json) == bytes);
    if (!simdjson::validate_utf8(bytes)) CHECK(read_back(json) != bytes);
  }
}

TEST_CASE("a number written as JSON reads back as itself") {
  CHECK(number(0.1) == "0.1");
  CHECK(number(3.0) == "3");
  CHECK(number(std::numeric_limits<double>::infinity()) == "null");
  CHECK(number(std::numeric_limits<double>::quiet_NaN()) == "null");
  std::string out;
  append_json_number(out, 0.1f);
  CHECK(out == "0.1");
  std::mt19937_64 random(3);
  for (int run = 0; run < 2000; ++run) {
    const auto bits = random();
    double value;
    static_assert(sizeof bits == sizeof value);
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) CHECK(std::stod(number(value)) == value);
  }
}

TEST_CASE("the writer puts commas between values only") {
  std::string out = "before\n";
  JsonWriter json(out);
  json.begin_object().field("a", 1).field("b:", "x{[:").key("c").begin_array();
  json.begin_object().end_object().value(true).value(nullptr).begin_array().end_array().value(-2.5);
  json.end_array().key("d").raw("{\"e\":[]}").field("f", std::string("g")).end_object();
  CHECK(out ==
        "before\n{\"a\":1,\"b:\":\"x{[:\",\"c\":[{},true,null,[],-2.5],"
        "\"d\":{\"e\":[]},\"f\":\"g\"}");
}
