#include <doctest/doctest.h>

#include <random>
#include <string>

#include "text/unicode/utf8.h"

using namespace pagedinfer;

namespace {

std::string decode(const std::string& bytes, size_t piece) {
  Utf8Stream stream;
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += piece) stream.push(bytes.substr(i, piece), text);
  return text;
}

std::string encode(uint32_t c) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
}

}  // namespace

TEST_CASE("every character comes out whole, however its bytes arrive") {
  std::string all;
  for (uint32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 97) {
    if (c < 0xD800 || c > 0xDFFF) all += encode(c);
  }
  for (size_t piece : {size_t{1}, size_t{2}, size_t{3}, size_t{5}, all.size()}) {
    CHECK(decode(all, piece) == all);
  }
}

TEST_CASE("a broken character is one U+FFFD for each maximal part") {
  const std::string r = "\xEF\xBF\xBD";
  const std::pair<std::string, std::string> cases[] = {
      {"a\x80z", "a" + r + "z"},                     // a continuation without a beginning
      {"\xC0\xAF", r + r},                           // a long form
      {"\xE0\x80\xAF", r + r + r},                   // a long form, refused at its second byte
      {"\xED\xA0\x80", r + r + r},                   // a surrogate
      {"\xF4\x90\x80\x80", r + r + r + r},           // past U+10FFFF
      {"\xF5z", r + "z"},                            //
      {"\xE2\x82z", r + "z"},                        // two bytes of three
      {"\xF0\x9F\x98z", r + "z"},                    // three bytes of four
      {"\xE2\x82\xE2\x82\xAC", r + "\xE2\x82\xAC"},  // the next one begins at once
      {"\xF1\x80\x80\xE1\x80\xC2"
       "b",
       r + r + r + "b"},
  };
  for (const auto& [bytes, text] : cases) {
    for (size_t piece : {1, 2, 9}) CHECK(decode(bytes, piece) == text);
  }
}

TEST_CASE("an unfinished character is held back") {
  CHECK(decode("ab\xE2\x82", 1) == "ab");
  CHECK(decode("ab\xF0\x9F\x98", 2) == "ab");
}

TEST_CASE("random bytes decode to the same valid text in any pieces") {
  std::mt19937 random(7);
  const unsigned char interesting[] = {0x41, 0x7F, 0x80, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xE0,
                                       0xE2, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF};
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes;
    for (uint32_t i = 0, n = random() % 30; i < n; ++i) {
      bytes += static_cast<char>(interesting[random() % sizeof(interesting)]);
    }
    const std::string text = decode(bytes, bytes.size() + 1);
    CHECK(decode(bytes, 1 + random() % 4) == text);
    CHECK(decode(text, 1) == text);  // valid: nothing is left to replace or to hold back
  }
}
