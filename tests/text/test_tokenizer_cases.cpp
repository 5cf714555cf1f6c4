#include <doctest/doctest.h>
#include <simdjson.h>

#include <string>
#include <vector>

#include "tests/support/support.h"
#include "tests/support/tokenizer_cases.h"
#include "text/files/make_tokenizer.h"
#include "text/stop_strings.h"

using namespace pagedinfer;

namespace {

constexpr const char* kTokenizers[] = {"llama3",  "qwen3",     "gpt2", "gemma3",
                                       "mistral", "metaspace", "odd",  "spm"};

std::string streamed_text(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  TextStream stream(tokenizer, {});
  for (const TokenId id : ids) stream.push(id);
  return stream.finish();
}

}  // namespace

TEST_CASE("random texts have the reference's ids") {
  for (const std::string name : kTokenizers) {
    CAPTURE(name);
    check_random_texts(*make_tokenizer(tokenizer_case(name)), name);
  }
}

TEST_CASE("random ids have the reference's text") {
  for (const std::string name : kTokenizers) {
    CAPTURE(name);
    const auto tokenizer = make_tokenizer(tokenizer_case(name));
    const TokenId letter = tokenizer->find_token("a").value();
    simdjson::dom::parser parser;
    const auto lines = lines_of_case(name + ".decoded.jsonl");
    REQUIRE(lines.size() == 200);
    for (const std::string& line : lines) {
      CAPTURE(line);
      const simdjson::dom::object object = parser.parse(line);
      std::vector<TokenId> ids;
      for (const int64_t id : simdjson::dom::array(object["ids"])) {
        ids.push_back(static_cast<TokenId>(id));
      }
      ids.push_back(letter);
      CHECK(streamed_text(*tokenizer, ids) == std::string(std::string_view(object["text"])) + "a");
    }
  }
}

TEST_CASE("a byte-level tokenizer gives every text back") {
  for (const std::string name : {"llama3", "gpt2"}) {
    CAPTURE(name);
    const auto tokenizer = make_tokenizer(tokenizer_case(name));
    for (const std::string& text : texts_for(name)) {
      std::string back;
      for (const TokenId id : tokenizer->encode(text, AddBos::kNo)) {
        const std::string_view bytes = tokenizer->token_bytes(id);
        // A special token that the text spells out leaves none.
        back += bytes.empty() ? "|" : std::string(bytes);
      }
      if (back.find('|') == std::string::npos || text.find('<') == std::string::npos) {
        CHECK(back == text);
      }
    }
  }
}
