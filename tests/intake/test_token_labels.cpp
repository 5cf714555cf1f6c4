// Tokens as records show them.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "intake/token_labels.h"
#include "tests/support/paths.h"
#include "text/files/make_tokenizer.h"

using namespace pagedinfer;

namespace {

// 0 is "<s>", which is special; of 9 nothing is known.
class WordTokenizer final : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view, AddBos) const override { return {}; }
  std::optional<TokenId> find_token(std::string_view) const override { return {}; }
  std::string_view token_bytes(TokenId token) const override {
    constexpr std::string_view kWords[] = {
        "", " a", "b\xC3\xA9", "\xE2\x82", "\xAC", "\xF0\x9F\x98\x80", "  c", " "};
    return token < std::ssize(kWords) ? kWords[token] : "";
  }
  std::string_view special_text(TokenId token) const override { return token == 0 ? "<s>" : ""; }
  int vocab_size() const override { return 10; }
};

}  // namespace

TEST_CASE("a token is shown as its text, its bytes or its number") {
  const WordTokenizer tokenizer;
  CHECK(token_label(&tokenizer, 1).text == " a");
  CHECK(token_label(&tokenizer, 2).bytes == "b\xC3\xA9");
  CHECK(token_label(&tokenizer, 0).text == "<s>");
  CHECK(token_label(&tokenizer, 3).text == "bytes:\\xe2\\x82");
  CHECK(token_label(&tokenizer, 3).bytes == "\xE2\x82");
  CHECK(token_label(&tokenizer, 9).text == "token_id:9");
  CHECK_FALSE(token_label(&tokenizer, 9).bytes);
  CHECK(token_label(nullptr, 1).text == "token_id:1");
}

TEST_CASE("tokens of a prompt begin where their text does") {
  const WordTokenizer tokenizer;
  const auto offsets = [&](const std::vector<TokenId>& tokens, std::string_view text) {
    return token_offsets(tokenizer, tokens, text);
  };
  using Offsets = std::vector<int>;
  CHECK(offsets({1, 2, 1}, " ab\xC3\xA9 a") == Offsets{0, 2, 4});
  CHECK(offsets({0, 1, 2}, "ab\xC3\xA9") == Offsets{0, 0, 1});      // <s> and a space in front
  CHECK(offsets({1, 0, 2}, " a<s>b\xC3\xA9") == Offsets{0, 2, 5});  // spelt out
  CHECK(offsets({2, 3, 4, 1}, "b\xC3\xA9\xE2\x82\xAC a") == Offsets{0, 2, 2, 3});
  CHECK(offsets({5, 6}, "\xF0\x9F\x98\x80  c") == Offsets{0, 1});
  CHECK(offsets({1, 2, 2}, " a") == Offsets{0, 2, 2});  // never beyond the text
  CHECK(offsets({0, 1, 2, 1}, "ab\xC3\xA9 a") == Offsets{0, 0, 1, 3});
  CHECK(offsets({7, 1, 2}, " ab\xC3\xA9") == Offsets{0, 0, 2});  // a space before the text's own
  CHECK(offsets({7, 7, 7}, "  ") == Offsets{0, 0, 1});
  CHECK(offsets({7, 7}, "  ") == Offsets{0, 1});
  // Where a normalizer has changed the text, or bytes are shown as U+FFFD, the next token counts.
  CHECK(offsets({2, 1}, "be\xCC\x81 a") == Offsets{0, 3});
  CHECK(offsets({3, 1}, "\xEF\xBF\xBD a") == Offsets{0, 1});
}

TEST_CASE("the bundled tokenizers' tokens begin where their text does") {
  const std::string words = "Zoe saw a \xE2\x82\xAC  fox\n\xF0\x9F\x98\x80 and 42 caf\xC3\xA9s.";
  const std::string spaces = "  two  spaces  ";
  for (const auto& [name, text] :
       std::vector<std::pair<std::string, std::string>>{{"story-llama", words},
                                                        {"story-llama", " " + words},
                                                        {"story-llama", spaces},
                                                        {"story-qwen3", words},
                                                        {"story-qwen3", " " + words},
                                                        {"story-gemma3", words},
                                                        {"story-gemma3", spaces}}) {
    CAPTURE(name);
    CAPTURE(text);
    const auto tokenizer = make_tokenizer(source_dir() + "/datasets/" + name);
    REQUIRE(tokenizer != nullptr);
    const std::vector<TokenId> tokens = tokenizer->encode(text);
    const std::vector<int> offsets = token_offsets(*tokenizer, tokens, text);
    REQUIRE(offsets.size() == tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      // The text up to a token is what the tokens before it say, but for what is no whole character
      // and the space that some tokenizers put in front.
      std::string before;
      for (size_t j = 0; j < i; ++j) before += tokenizer->token_bytes(tokens[j]);
      // Only story-llama's does that.
      if (!before.empty() && name == "story-llama") before.erase(0, 1);
      int num_whole = 0;
      for (std::string_view rest = before; const int size = utf8_length(rest); ++num_whole) {
        rest.remove_prefix(static_cast<size_t>(size));
      }
      CHECK(offsets[i] == num_whole);
    }
  }
}
