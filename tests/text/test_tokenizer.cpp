#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/support.h"
#include "text/files/make_tokenizer.h"

using namespace pagedinfer;

namespace {

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos;
       begin = end + separator.size()) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string text_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += tokenizer.token_bytes(id);
  return text;
}

}  // namespace

TEST_CASE("the ids of 46 hard texts are the reference's") {
  struct Case {
    std::string tokenizer, expected;
    int vocab_size;
    std::vector<TokenId> prefix;  // the beginning of sequence
    bool leading_space;           // the tokenizer puts one before the first word
  };
  const Case cases[] = {{"llama2", "llama-spm", 32000, {1}, true},
                        {"llama3", "llama-bpe", 128000, {128000}, false},
                        {"qwen3", "qwen2", 151643, {}, false},
                        {"gpt2", "gpt-2", 50257, {}, false}};
  for (const Case& c : cases) {
    CAPTURE(c.tokenizer);
    const std::string dir = shared_data("tokenizers/" + c.tokenizer);
    const std::string expected = shared_data("expected_tokens/ggml-vocab-" + c.expected + ".gguf");
    if (!std::filesystem::exists(dir) || !std::filesystem::exists(expected + ".inp")) {
      MESSAGE("SKIPPED: no tokenizer at " << dir);
      continue;
    }
    const auto tokenizer = make_tokenizer(dir);
    REQUIRE(tokenizer != nullptr);
    CHECK(tokenizer->vocab_size() == c.vocab_size);
    auto texts = split(read_file(expected + ".inp"), "\n__ggml_vocab_test__\n");
    texts.pop_back();  // after the last separator
    const auto lines = split(read_file(expected + ".out"), "\n");
    REQUIRE(texts.size() == 46);
    REQUIRE(lines.size() >= texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i]);
      std::vector<TokenId> ids = c.prefix;
      std::istringstream line(lines[i]);
      for (TokenId id; line >> id;) ids.push_back(id);
      CHECK(tokenizer->encode(texts[i]) == ids);
      const bool space = c.leading_space && !texts[i].empty();
      CHECK(text_of(*tokenizer, ids) == (space ? " " : "") + texts[i]);
    }
  }
}

TEST_CASE("special tokens that a prompt spells out are found") {
  const auto tokenizer = make_tokenizer(bundled_model());
  REQUIRE(tokenizer != nullptr);
  CHECK(tokenizer->encode("</s><s><unk>") == std::vector<TokenId>{1, 2, 1, 0});
  // What stands between them is tokenized by itself, with a space before the prompt's first
  // word only.
  CHECK(tokenizer->encode("a</s>b") == std::vector<TokenId>{1, 260, 2, 945});
  CHECK(tokenizer->encode("a</s> b") == std::vector<TokenId>{1, 260, 2, 268});
  CHECK(tokenizer->encode("<s>x") == std::vector<TokenId>{1, 1, 984});
}

TEST_CASE("control tokens and ids beyond the vocabulary add no text") {
  const auto tokenizer = make_tokenizer(bundled_model());
  for (TokenId id : {-1, 0, 1, 2, tokenizer->vocab_size(), tokenizer->vocab_size() + 1}) {
    CHECK(tokenizer->token_bytes(id).empty());
  }
}

TEST_CASE("every byte has a token, so every text comes back") {
  const auto tokenizer = make_tokenizer(bundled_model());
  const std::string text = "Zwölf Bären\n\t 3 + 4?  \xF0\x9F\x98\x80 \xE2\x82\xAC";
  CHECK(text_of(*tokenizer, tokenizer->encode(text)) == " " + text);
  CHECK(tokenizer->encode("") == std::vector<TokenId>{1});
}

TEST_CASE("tokenizer_config.json decides about the beginning of sequence") {
  TempDir dir;
  std::filesystem::copy(bundled_model() + "/tokenizer.model", dir / "tokenizer.model");
  const auto with = make_tokenizer(dir.path())->encode("a tree");
  write_file(dir / "tokenizer_config.json", R"({"add_bos_token": false})");
  const auto without = make_tokenizer(dir.path())->encode("a tree");
  CHECK(with.front() == 1);
  CHECK(without == std::vector<TokenId>(with.begin() + 1, with.end()));
}

TEST_CASE("tokenizer_config.json adds tokens to a tokenizer.model") {
  TempDir dir;
  std::filesystem::copy(bundled_model() + "/tokenizer.model", dir / "tokenizer.model");
  const auto with = [&](const std::string& config) {
    write_file(dir / "tokenizer_config.json", config);
    return make_tokenizer(dir.path());
  };
  const auto plain = with("{}");
  const TokenId next = plain->vocab_size();
  const std::string entry = ": {\"content\": \"<x>\", \"special\": false}";
  const auto tokenizer =
      with("{\"added_tokens_decoder\": {\"" + std::to_string(next) + "\"" + entry +
           "}, \"pad_token\": \"[PAD]\", \"eos_token\": \"</s>\", "
           "\"add_eos_token\": true}");
  auto expected = plain->encode("a tree");
  expected.insert(expected.end(), {next, next + 1, 2});
  CHECK(tokenizer->encode("a tree<x>[PAD]") == expected);
  CHECK(tokenizer->find_token("<x>") == next);
  CHECK(tokenizer->token_bytes(next) == "<x>");
  CHECK(tokenizer->token_bytes(next + 1).empty());
  CHECK(tokenizer->vocab_size() == next);
  CHECK_THROWS_WITH_AS(with("{\"added_tokens_decoder\": {\"70000\"" + entry + "}}"),
                       doctest::Contains("'<x>'"), Error);
}

TEST_CASE("in a legacy tokenizer.model text behind a special token begins a text") {
  TempDir dir;
  std::filesystem::copy(bundled_model() + "/tokenizer.model", dir / "tokenizer.model");
  write_file(dir / "tokenizer_config.json", R"({"legacy": true})");
  const auto tokenizer = make_tokenizer(dir.path());
  auto expected = tokenizer->encode("a");
  expected.push_back(2);
  for (const TokenId id : tokenizer->encode("b", AddBos::kNo)) expected.push_back(id);
  CHECK(tokenizer->encode("a</s>b") == expected);
  CHECK(tokenizer->encode("a</s> b") == expected);
  CHECK(make_tokenizer(bundled_model())->encode("a</s>b") != expected);
}

TEST_CASE("a special token that people spell is the text that sentencepiece makes of it") {
  // Pieces behind the bundled ones, in the format of the file.
  const auto piece = [](const std::string& text, char type) {
    const std::string fields = "\x0A" + std::string(1, static_cast<char>(text.size())) + text +
                               std::string("\x15\0\0\0\0\x18", 6) + type;
    return "\x0A" + std::string(1, static_cast<char>(fields.size())) + fields;
  };
  constexpr char kNormal = 1, kUserDefined = 4;
  TempDir dir;
  write_file(dir / "tokenizer.model", read_file(bundled_model() + "/tokenizer.model") +
                                          piece("</", kNormal) + piece("<user>", kUserDefined));
  const TokenId user = make_tokenizer(dir.path())->find_token("<user>").value();
  write_file(dir / "tokenizer_config.json",
             "{\"added_tokens_decoder\": {\"" + std::to_string(user) +
                 "\": {\"content\": \"<user>\", \"special\": true}}}");
  const auto tokenizer = make_tokenizer(dir.path());
  const auto pieces_of = [&](const std::string& text, const std::vector<TextRange>& written) {
    std::string pieces;
    for (const TokenId id : tokenizer->encode_apart(text, AddBos::kNo, {.ranges = written})) {
      const std::string_view bytes = tokenizer->token_bytes(id);
      pieces += (bytes.empty() ? std::to_string(id) : std::string(bytes)) + "|";
    }
    return pieces;
  };
  CHECK(pieces_of("a</s>b", {}) == " a|2|b|");
  CHECK(pieces_of("a</s>b", {{0, 6}}) == " a|</|s|>|b|");
  CHECK(pieces_of("a</", {{0, 3}}) == " a|</|");
  const std::string of_user = std::to_string(user) + "|";
  CHECK(pieces_of("<user></s>", {}) == of_user + "2|");
  const std::string escaped = pieces_of("<user></s>", {{0, 10}});
  CHECK(escaped.find(of_user) == escaped.npos);
  CHECK(escaped.starts_with(" |<|u"));
  CHECK(escaped.ends_with("|>|</|s|>|"));
  CHECK(pieces_of("</s><user>", {{0, 4}}) == " |</|s|>|" + of_user);
}

TEST_CASE("a text that has the beginning of sequence already gets no second one") {
  const auto tokenizer = make_tokenizer(bundled_model());
  const auto with = tokenizer->encode("a tree");
  CHECK(tokenizer->encode("a tree", AddBos::kYes) == with);
  CHECK(tokenizer->encode("a tree", AddBos::kNo) ==
        std::vector<TokenId>(with.begin() + 1, with.end()));
}

TEST_CASE("a token is found by its spelling") {
  const auto tokenizer = make_tokenizer(bundled_model());
  CHECK(tokenizer->find_token("<unk>") == 0);
  CHECK(tokenizer->find_token("<s>") == 1);
  CHECK(tokenizer->find_token("</s>") == 2);
  CHECK(tokenizer->find_token("<|im_end|>") == std::nullopt);
}

TEST_CASE("a directory's tokenizer is absent, not supported or broken") {
  TempDir dir;
  CHECK(make_tokenizer(dir.path()) == nullptr);
  write_file(dir / "tokenizer.json", "{}");
  CHECK_THROWS_WITH_AS(make_tokenizer(dir.path()), doctest::Contains("tokenizer.json"), Error);
  std::filesystem::remove(dir / "tokenizer.json");
  write_file(dir / "tokenizer.model", "this is no model");
  CHECK_THROWS_WITH_AS(make_tokenizer(dir.path()), doctest::Contains("tokenizer.model"), Error);
  write_file(dir / "tokenizer.model", "");
  CHECK_THROWS_WITH_AS(make_tokenizer(dir.path()), doctest::Contains("tokenizer.model"), Error);
}
