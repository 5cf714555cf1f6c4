#include "load/form_vocabulary.h"

#include <optional>
#include <string_view>

namespace pagedinfer {

namespace {

// A mark is no text, though it is spelt with letters: a model says something else by it.
bool is_mark(const Tokenizer& tokenizer, TokenId token, std::string_view bytes) {
  if (bytes.size() < 3) return false;
  const bool looks_like_one = (bytes.front() == '<' && bytes.back() == '>') ||
                              (bytes.front() == '[' && bytes.back() == ']');
  if (!looks_like_one) return false;
  const std::optional<Tokenizer::AddedPrefix> added = tokenizer.added_prefix(bytes);
  return added && added->id == token && added->size == bytes.size();
}

}  // namespace

std::vector<std::string> form_vocabulary(const Tokenizer& tokenizer, int vocab) {
  std::vector<std::string> tokens(static_cast<size_t>(vocab));
  for (TokenId token = 0; token < vocab; ++token) {
    const std::string_view bytes = tokenizer.token_bytes(token);
    if (!is_mark(tokenizer, token, bytes)) tokens[static_cast<size_t>(token)] = bytes;
  }
  return tokens;
}

}  // namespace pagedinfer
