// Random texts and the ids that the reference's libraries give them
// (tools/goldens/make_tokenizer_cases.py).
#pragma once

#include <doctest/doctest.h>
#include <simdjson.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "core/request.h"
#include "tests/support/support.h"
#include "text/tokenizer.h"

namespace pagedinfer {

inline std::string tokenizer_case(const std::string& name) {
  return source_dir() + "/tests/data/tokenizers/" + name;
}

inline std::vector<std::string> lines_of_case(const std::string& name) {
  std::istringstream file(read_file(tokenizer_case(name)));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

inline std::vector<std::string> texts_for(const std::string& name) {
  const std::string own = name + ".texts.jsonl";
  simdjson::dom::parser parser;
  std::vector<std::string> texts;
  for (const std::string& line :
       lines_of_case(std::filesystem::exists(tokenizer_case(own)) ? own : "texts.jsonl")) {
    texts.emplace_back(std::string_view(parser.parse(line)));
  }
  return texts;
}

// Of each text.
inline std::vector<std::vector<TokenId>> ids_for(const std::string& name) {
  std::vector<std::vector<TokenId>> all;
  for (const std::string& text : lines_of_case(name + ".ids")) {
    std::istringstream line(text);
    all.emplace_back();
    for (TokenId id; line >> id;) all.back().push_back(id);
  }
  return all;
}

// Checks that the tokenizer gives the texts of a case the reference's ids.
inline void check_random_texts(const Tokenizer& tokenizer, const std::string& name) {
  const auto texts = texts_for(name);
  const auto ids = ids_for(name);
  REQUIRE(texts.size() > 400);
  REQUIRE(ids.size() == texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(texts[i]);
    CHECK(tokenizer.encode(texts[i]) == ids[i]);
  }
}

}  // namespace pagedinfer
