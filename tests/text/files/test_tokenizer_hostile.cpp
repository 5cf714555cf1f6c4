#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "io/json_file.h"
#include "tests/support/support.h"
#include "text/files/tokenizer_json.h"

using namespace pagedinfer;

namespace {

// A small tokenizer.json; each argument replaces a part.
struct File {
  std::string vocab = R"({"a": 0, "b": 1, "ab": 2})", merges = R"(["a b"])", added = "[]";
  std::string normalizer = "null", pre = "null", post = "null";
  std::string decoder = R"({"type": "Fuse"})", model = "", root = "";

  std::string text() const {
    return R"({"version": "1.0", "added_tokens": )" + added + R"(, "normalizer": )" + normalizer +
           R"(, "pre_tokenizer": )" + pre + R"(, "post_processor": )" + post + R"(, "decoder": )" +
           decoder + root + R"(, "model": {"type": "BPE", "vocab": )" + vocab + R"(, "merges": )" +
           merges + model + "}}";
  }
};

std::vector<TokenId> ids_of(const std::string& file, const std::string& text) {
  return make_bpe_tokenizer(read_tokenizer_json(JsonFile("DIR/tokenizer.json", file)))
      ->encode(text);
}

void check_refused(const File& file, const std::string& place) {
  CAPTURE(file.text());
  CHECK_THROWS_WITH_AS(ids_of(file.text(), "ab"), doctest::Contains("DIR/tokenizer.json"), Error);
  CHECK_THROWS_WITH_AS(ids_of(file.text(), "ab"), doctest::Contains(place.c_str()), Error);
}

std::string token(const std::string& id, const std::string& content) {
  return R"({"id": )" + id + R"(, "content": ")" + content + R"("})";
}

}  // namespace

TEST_CASE("the small tokenizer of these tests works") {
  CHECK(ids_of(File{}.text(), "abba") == std::vector<TokenId>{2, 1, 0});
  CHECK(ids_of(File{.merges = R"([["a", "b"]])"}.text(), "ab") == std::vector<TokenId>{2});
  CHECK(ids_of(File{.added = "[" + token("3", "<x>") + "]"}.text(), "a<x>b") ==
        std::vector<TokenId>{0, 3, 1});
}

// The ids are the reference's.
TEST_CASE("a word is made of the model's tokens, never of added ones") {
  using Ids = std::vector<TokenId>;
  const std::string vocab = R"({"a": 0, "b": 1, "ab": 2, "\u0120": 3, "ba": 4})";
  const std::string byte_level =
      R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";
  const std::string digits = R"({"type": "Digits", "individual_digits": true})";
  const auto added = [](const std::string& id, const std::string& content) {
    return R"([{"id": )" + id + R"(, "single_word": true, "content": ")" + content + R"("}])";
  };
  for (const bool whole : {true, false}) {
    CAPTURE(whole);
    const std::string model = whole ? R"(, "ignore_merges": true)" : "";
    const auto ids = [&](const std::string& tokens, const std::string& pre,
                         const std::string& text) {
      return ids_of(File{.vocab = vocab, .added = tokens, .pre = pre, .model = model}.text(), text);
    };
    // The added token is the byte-level spelling of a word, which is not in the text.
    CHECK(ids(added("5", "\\u0120ab"), byte_level, " ab") == Ids{3, 2});
    CHECK(ids(added("5", "\\u0120ba"), byte_level, " ba") == Ids{3, 1, 0});
    // The single-word token stands beside a letter, where it does not match.
    CHECK(ids(added("5", "bba"), digits, "1bba") == Ids{1, 1, 0});
    CHECK(ids(added("5", "\\u00e9"), "null",
              "a\xC3\xA9"
              "b") == Ids{2});
    // An added token that the model has too.
    CHECK(ids(added("4", "ba"), digits, "1ba") == (whole ? Ids{4} : Ids{1, 0}));
  }
}

TEST_CASE("a vocabulary that is wrong is refused by name") {
  for (const std::string vocab :
       {"3", "[]", "null", R"({"a": -1})", R"({"a": 16777216})", R"({"a": 9223372036854775808})",
        R"({"a": 1e300})", R"({"a": "0"})", R"({"a": 0, "b": 0})", R"({"a": 0, "a": 1})",
        R"({"a": {}})"}) {
    check_refused({.vocab = vocab}, "model.vocab");
  }
}

TEST_CASE("merges that are wrong are refused by name") {
  for (const std::string merges :
       {"3", "{}", R"(["ab"])", R"(["a b c"])", R"(["a  b"])", R"([["a"]])", R"([["a", "b", "c"]])",
        R"([["a", 1]])", R"([1])", R"(["a c"])", R"(["b a"])", R"(["c a"])", R"([null])"}) {
    check_refused({.merges = merges}, "model.merges");
  }
}

TEST_CASE("what a model file asks for and we do not know is refused by name") {
  check_refused({.model = R"(, "dropout": 0.1)"}, "model.dropout");
  check_refused({.model = R"(, "unk_token": "u")"}, "model.unk_token");
  check_refused({.model = R"(, "end_of_word_suffix": "</w>")"}, "model.end_of_word_suffix");
  check_refused({.model = R"(, "continuing_subword_prefix": "##")"}, "subword_prefix");
  check_refused({.model = R"(, "byte_fallback": 1)"}, "model.byte_fallback");
  check_refused({.model = R"(, "surprise": 1)"}, "model.surprise");
  check_refused({.model = R"(, "type": "Unigram")"}, "model.type");
  check_refused({.root = R"(, "surprise": 1)"}, "surprise");
  check_refused({.normalizer = R"({"type": "NFKC"})"}, "'normalizer.type' is NFKC");
  check_refused({.normalizer = R"({"type": "Sequence", "normalizers": [{"type": "Lowercase"}]})"},
                "'normalizer.normalizers[0].type' is Lowercase");
  check_refused({.normalizer = R"({"type": "Replace", "pattern": {"Regex": "a"}, "content": ""})"},
                "normalizer.pattern");
  check_refused({.normalizer = R"({"type": "Replace", "pattern": {"String": ""}, "content": ""})"},
                "normalizer.pattern");
  check_refused({.pre = R"({"type": "Whitespace"})"}, "'pre_tokenizer.type' is Whitespace");
  check_refused({.pre = R"({"type": "Sequence", "pretokenizers":
                            [{"type": "ByteLevel"}, {"type": "Digits"}]})"},
                "pre_tokenizer.pretokenizers[1].type");
  check_refused({.pre = R"({"type": "Metaspace", "replacement": "ab"})"}, ".replacement");
  check_refused({.pre = R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "?"})"},
                ".prepend_scheme");
  check_refused({.post = R"({"type": "BertProcessing"})"}, "post_processor.type");
  check_refused({.post = R"({"type": "TemplateProcessing", "single": []})"}, ".single");
  check_refused({.post = R"({"type": "TemplateProcessing", "single":
                             [{"SpecialToken": {"id": "s"}}, {"Sequence": {"id": "A"}}]})"},
                ".single");
  check_refused({.post = R"({"type": "TemplateProcessing", "special_tokens": {"s": {"ids": [7]}},
                             "single": [{"SpecialToken": {"id": "s"}}, {"Sequence": {"id": "A"}}]})"},
                ".ids");
  check_refused({.decoder = "null"}, "decoder");
  check_refused({.decoder = R"({"type": "WordPiece"})"}, "'decoder.type' is WordPiece");
  check_refused({.decoder = R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
                                {"type": "ByteFallback"}]})"},
                "decoder.decoders[1].type");
}

TEST_CASE("a pattern that may mean something else here is refused by name") {
  for (const std::string pattern :
       {"(",          "[a",        "a{2,1}", "\\\\w+", "\\\\b", ".",           "^a",
        "a$",         "(?<=a)b",   "(?>a)",  "(?i)a",  "\\\\h", "[[:alpha:]]", "[a&&b]",
        "\\\\p{Han}", "\\\\p{^L}", "\\\\pL", "a{,2}",  "a{1}+", "a*",          "(a)\\\\1",
        "\\\\x41",    "(*FAIL)",   "a**",    "\\\\Qa", "\\\\"}) {
    check_refused({.pre = R"({"type": "Split", "behavior": "Isolated", "pattern": {"Regex": ")" +
                          pattern + "\"}}"},
                  "pre_tokenizer.pattern");
  }
}

TEST_CASE("a text that takes a pattern too long is an error of that text alone") {
  const auto tokenizer = make_bpe_tokenizer(read_tokenizer_json(
      JsonFile("DIR/tokenizer.json", File{.pre = R"({"type": "Split", "behavior": "Isolated",
                                           "pattern": {"Regex": "(?:a+)+[bc]"}})"}
                                         .text())));
  const std::string hostile(64, 'a');
  for (int round = 0; round < 2; ++round) {
    CHECK_THROWS_WITH_AS(tokenizer->encode(hostile), doctest::Contains("pattern"), EncodeError);
    CHECK(tokenizer->encode("ab") == std::vector<TokenId>{2});
  }
}

TEST_CASE("added tokens that are wrong are refused by name") {
  const std::vector<std::string> wrong = {"{}",
                                          "[3]",
                                          "[" + token("3", "") + "]",
                                          "[" + token("4", "<x>") + "]",
                                          "[" + token("1", "a") + "]",
                                          "[" + token("-1", "<x>") + "]",
                                          "[" + token("9223372036854775808", "<x>") + "]",
                                          R"([{"id": 3}])",
                                          "[" + token("3", "<x>") + "," + token("4", "<x>") + "]",
                                          R"([{"id": 3, "content": "<x>", "special": "yes"}])"};
  for (const std::string& added : wrong) check_refused({.added = added}, "added_tokens");
}

TEST_CASE("a file that is cut off or deep is an error that names it") {
  const std::string whole = File{.added = "[" + token("3", "<x>") + "]"}.text();
  CHECK(ids_of(whole, "<x>") == std::vector<TokenId>{3});
  for (size_t size = 0; size < whole.size(); ++size) {
    CHECK_THROWS_WITH_AS(ids_of(whole.substr(0, size), "ab"),
                         doctest::Contains("DIR/tokenizer.json"), Error);
  }
  std::string deep, end;
  for (int i = 0; i < 900; ++i) {
    deep += R"({"type": "Sequence", "normalizers": [)";
    end += "]}";
  }
  CHECK_THROWS_WITH_AS(ids_of(File{.normalizer = deep + end}.text(), "ab"),
                       doctest::Contains("DIR/tokenizer.json"), Error);
  CHECK_THROWS_WITH_AS(ids_of(std::string(100000, '['), "ab"),
                       doctest::Contains("DIR/tokenizer.json"), Error);
}

TEST_CASE("no change of a few bytes crashes the reader or the tokenizer") {
  const std::string whole = read_file(source_dir() + "/tests/data/tokenizers/odd/tokenizer.json");
  std::mt19937 random(1);
  const std::string letters = "{}[]\",:0123456789-eatrue\\ \n\xC3\xFF";
  int accepted = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::string broken = whole;
    for (uint32_t n = 1 + random() % 3; n > 0; --n) {
      // The parts around the vocabulary are at the beginning.
      const size_t at = random() % (random() % 2 == 0 ? 3000 : broken.size());
      if (random() % 3 == 0) {
        broken.erase(at, 1 + random() % 4);
      } else {
        broken[at] = letters[random() % letters.size()];
      }
    }
    try {
      ids_of(broken, "It's 12 <left> word e\xCC\x81t\xC3\xA9!?_x");
      ++accepted;
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find("DIR/tokenizer.json") != std::string::npos);
    }
  }
  CHECK(accepted > 2);
}
