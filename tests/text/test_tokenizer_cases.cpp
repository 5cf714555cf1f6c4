#include <doctest/doctest.h>
#include <simdjson.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/support.h"
#include "text/files/make_tokenizer.h"
#include "text/stop_strings.h"

using namespace pagedinfer;

namespace {

constexpr const char* kTokenizers[] = {"llama3",  "qwen3",     "gpt2", "gemma3",
                                       "mistral", "metaspace", "odd",  "spm"};

std::string path_of(const std::string& name) {
  return source_dir() + "/tests/data/tokenizers/" + name;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::istringstream file(read_file(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> texts_for(const std::string& name) {
  const std::string own = path_of(name + ".texts.jsonl");
  simdjson::dom::parser parser;
  std::vector<std::string> texts;
  for (const std::string& line :
       lines_of(std::filesystem::exists(own) ? own : path_of("texts.jsonl"))) {
    texts.emplace_back(std::string_view(parser.parse(line)));
  }
  return texts;
}

std::string streamed_text(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  TextStream stream(tokenizer, {});
  for (const TokenId id : ids) stream.push(id);
  return stream.finish();
}

}  // namespace

TEST_CASE("random texts have the reference's ids") {
  for (const std::string name : kTokenizers) {
    CAPTURE(name);
    const auto tokenizer = make_tokenizer(path_of(name));
    const auto texts = texts_for(name);
    const auto lines = lines_of(path_of(name + ".ids"));
    REQUIRE(texts.size() > 400);
    REQUIRE(lines.size() == texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i]);
      std::istringstream line(lines[i]);
      std::vector<TokenId> ids;
      for (TokenId id; line >> id;) ids.push_back(id);
      CHECK(tokenizer->encode(texts[i]) == ids);
    }
  }
}

TEST_CASE("random ids have the reference's text") {
  for (const std::string name : kTokenizers) {
    CAPTURE(name);
    const auto tokenizer = make_tokenizer(path_of(name));
    const TokenId letter = tokenizer->find_token("a").value();
    simdjson::dom::parser parser;
    const auto lines = lines_of(path_of(name + ".decoded.jsonl"));
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
    const auto tokenizer = make_tokenizer(path_of(name));
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
