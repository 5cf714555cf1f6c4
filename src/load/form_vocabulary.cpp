#include "load/form_vocabulary.h"

#include <optional>
#include <string_view>

namespace pagedinfer {

namespace {

// Whether an added token is a mark, such as <tool_call>. A model means something else by it than
// its letters, so it is not text.
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
