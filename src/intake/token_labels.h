#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "output/log_probs.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// A token as records show it: the bytes that it adds to a text, or the spelling of a special token.
// Bytes that are not UTF-8 by themselves are written as in "bytes:\xe2\x82". A token that the
// tokenizer does not know is shown by its number. The tokenizer may be null.
TokenLabel token_label(const Tokenizer* tokenizer, TokenId token);

// For each token the number of characters of `text` before it; `text` was encoded to these tokens.
// A token that begins inside a character counts as beginning with that character. Tokens that the
// tokenizer added around the text have no characters, nor has a space that it added in front.
std::vector<int> token_offsets(const Tokenizer& tokenizer, std::span<const TokenId> tokens,
                               std::string_view text);

}  // namespace pagedinfer
