#include "cli/split_words.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/refusal.h"

namespace pagedinfer {

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  char quote = 0;        // the open quote; 0: none
  bool in_word = false;  // '' is a word
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else {
      if (c == '\\' && quote != '\'' && i + 1 < text.size()) c = text[++i];
      words.back() += c;
    }
  }
  if (quote != 0) {
    throw Error(fmt::format("{}: the quote {} does not end", shortened(text), quote));
  }
  return words;
}

}  // namespace pagedinfer
