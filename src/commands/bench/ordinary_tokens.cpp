#include "commands/bench/ordinary_tokens.h"

#include <algorithm>

namespace pagedinfer {

std::vector<TokenId> ordinary_tokens(const ModelSpec& spec, const Tokenizer* tokenizer) {
  std::vector<TokenId> ordinary;
  for (TokenId token = 0; token < spec.vocab; ++token) {
    if (std::ranges::find(spec.eos_tokens, token) != spec.eos_tokens.end()) continue;
    const bool is_text = tokenizer == nullptr || !tokenizer->token_bytes(token).empty();
    if (is_text) ordinary.push_back(token);
  }
  return ordinary;
}

}  // namespace pagedinfer
