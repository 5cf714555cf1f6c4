#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "text/stop_strings.h"

using namespace pagedinfer;

namespace {

// Ids are indices into a list of byte strings.
class ListTokenizer final : public Tokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  std::vector<TokenId> encode(std::string_view, AddBos) const override { return {}; }
  std::optional<TokenId> find_token(std::string_view) const override { return {}; }
  std::string_view token_bytes(TokenId token) const override {
    return pieces_[static_cast<size_t>(token)];
  }
  int vocab_size() const override { return static_cast<int>(pieces_.size()); }

 private:
  std::vector<std::string> pieces_;
};

}  // namespace

TEST_CASE("a stop string is found across tokens and cut from the text") {
  const ListTokenizer tokenizer({" Hel", "lo wo", "rld"});
  const std::vector<std::string> stops = {"o worl", "xyz"};
  TextStream stream(tokenizer, stops);
  CHECK_FALSE(stream.push(0));
  CHECK_FALSE(stream.push(1));
  CHECK(stream.push(2));
  CHECK(stream.finish() == " Hell");
}

TEST_CASE("a token that may not stop hides the stop strings that end in it") {
  const ListTokenizer tokenizer({"ab", "b"});
  const std::vector<std::string> stops = {"b", "bb"};
  TextStream stream(tokenizer, stops);
  CHECK_FALSE(stream.push(0, false));
  CHECK(stream.push(1));
  CHECK(stream.finish() == "a");  // "bb" begins in the first token and ends in the second
}

TEST_CASE("text without stop strings is all that the tokens add") {
  const ListTokenizer tokenizer({" a", "\xE2\x82", "\xAC", "", "\xE2"});
  TextStream stream(tokenizer, std::vector<std::string>{""});
  for (TokenId token : {0, 1, 2, 3, 0, 4}) CHECK_FALSE(stream.push(token));
  CHECK(stream.finish() == " a\xE2\x82\xAC a");
}

TEST_CASE("offsets count the characters before a token, in whatever pieces they come") {
  const ListTokenizer tokenizer({" a", "\xE2\x82", "\xAC", "", "b\xC3\xA9"});
  TextStream stream(tokenizer, {});
  for (TokenId token : {0, 1, 2, 3, 4, 1, 0, 2, 4, 1}) stream.push(token);
  // " a", one character of two tokens, nothing, two characters, what is no UTF-8, ...
  CHECK(stream.offsets() == std::vector<int>{0, 2, 2, 3, 3, 5, 6, 8, 9, 11});
}

TEST_CASE("offsets end with the last token of which the stop string leaves something") {
  const ListTokenizer tokenizer({"a.", "b", ".c", "\xE2\x82\xAC"});
  const std::vector<std::string> stops = {".c", "b."};
  const auto offsets = [&](std::vector<TokenId> tokens, bool keep_stop) {
    TextStream stream(tokenizer, stops, {.keep_stop = keep_stop});
    for (const TokenId token : tokens) stream.push(token);
    return stream.offsets();
  };
  CHECK(offsets({3, 1, 2}, false) == std::vector<int>{0});     // the text is cut before "b."
  CHECK(offsets({3, 0, 2}, false) == std::vector<int>{0, 1});  // "a." stays
  CHECK(offsets({3, 0, 2}, true) == std::vector<int>{0, 1, 3});
  CHECK(offsets({2}, false).empty());
}

TEST_CASE("incremental search finds what a search of the whole text finds") {
  std::mt19937 random(11);
  const ListTokenizer tokenizer(
      {"a", "b", "ab", "aab", "ba", "\xE2\x82\xAC", "\xE2", "\x82", "\xAC", "", "abab", "\xFF"});
  int stopped = 0, ended = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) {
      for (uint32_t i = 0, n = 1 + random() % 4; i < n; ++i) {
        stop += tokenizer.token_bytes(std::vector<TokenId>{0, 1, 2, 5}[random() % 4]);
      }
    }

    TextStream stream(tokenizer, stops);
    std::string bytes;
    bool found = false;
    for (int i = 0; i < 40 && !found; ++i) {
      const auto token = static_cast<TokenId>(random() % 12);
      const bool hit = stream.push(token);
      bytes += tokenizer.token_bytes(token);

      std::string text;
      Utf8Stream().push(bytes, text);
      size_t first = std::string::npos;
      for (const std::string& stop : stops) first = std::min(first, text.find(stop));
      found = first != std::string::npos;
      REQUIRE(hit == found);
      REQUIRE(stream.finish() == text.substr(0, first));
    }
    ++(found ? stopped : ended);
  }
  CHECK(stopped > 300);
  CHECK(ended > 300);
}

TEST_CASE("a run of byte tokens is UTF-8 as a whole, or a mark for each byte") {
  // Ids below 256 are bytes, then "a", and a special token.
  class ByteTokenizer final : public Tokenizer {
   public:
    std::vector<TokenId> encode(std::string_view, AddBos) const override { return {}; }
    std::optional<TokenId> find_token(std::string_view) const override { return {}; }
    std::string_view token_bytes(TokenId token) const override { return bytes_[token]; }
    bool is_byte(TokenId token) const override { return token < 256; }
    int vocab_size() const override { return 258; }
    ByteTokenizer() {
      for (int byte = 0; byte < 256; ++byte) bytes_.emplace_back(1, static_cast<char>(byte));
      bytes_.insert(bytes_.end(), {"a", ""});
    }

   private:
    std::vector<std::string> bytes_ = {};
  };
  const ByteTokenizer tokenizer;
  const auto text_of = [&](const std::vector<TokenId>& ids, std::vector<std::string> stops = {}) {
    TextStream stream(tokenizer, stops);
    for (const TokenId id : ids) {
      if (stream.push(id)) break;
    }
    return stream.finish();
  };
  const std::string mark = "\xEF\xBF\xBD", euro = "\xE2\x82\xAC";
  constexpr TokenId a = 256, special = 257;
  CHECK(text_of({a, 0xE2, 0x82, 0xAC, a}) == "a" + euro + "a");
  CHECK(text_of({a, 0xE2, 0x82, special, 0xAC, a}) == "a" + euro + "a");
  CHECK(text_of({a, 0xE2, 0x82, 0xAC, 0xFF, a}) == "a" + mark + mark + mark + mark + "a");
  CHECK(text_of({a, 0xE2, 0x82, 0xAC, 0xFF, 'x', a, 'y'}) ==
        "a" + mark + mark + mark + mark + mark + "ay");
  CHECK(text_of({'x', 0xE2, 0x82, a}) == mark + mark + mark + "a");
  CHECK(text_of({a, 'x', 0xE2, 0x82}) == "ax");  // a character that is not complete
  // Stop strings see the marks, and the text before they came.
  CHECK(text_of({a, 0xE2, 0x82, 0xAC, 0xFF, a}, {euro}) == "a");
  CHECK(text_of({a, 0xFF, 0xFF, a}, {mark + "a"}) == "a" + mark);
  CHECK(text_of({a, 'x', 0xFF, a}, {"a" + mark}) == "");

  const auto offsets_of = [&](const std::vector<TokenId>& ids) {
    TextStream stream(tokenizer, {});
    for (const TokenId id : ids) stream.push(id);
    return stream.offsets();
  };
  CHECK(offsets_of({a, 0xE2, 0x82, special, 0xAC, a}) == std::vector<int>{0, 1, 1, 1, 1, 2});
  CHECK(offsets_of({a, 0xE2, 0x82, 0xAC, 0xFF, a}) == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK(offsets_of({'x', 0xE2, 0x82, a}) == std::vector<int>{0, 1, 2, 3});
}
