#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "output/log_probs.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// How records show a token: as the bytes that it adds to a text, a special token as it is spelt.
// Bytes that are no UTF-8 by themselves are written as in "bytes:\xe2\x82", and a token of which
// nothing is known by its number. The tokenizer may be null.
TokenLabel token_label(const Tokenizer* tokenizer, TokenId token);

// Where each token begins in `text`, the text that was encoded to these tokens: how many characters
// come before it. A token that begins inside a character counts as beginning with it. Tokens that
// the tokenizer put around the text take no room in it, nor does a space that it put in front.
std::vector<int> token_offsets(const Tokenizer& tokenizer, std::span<const TokenId> tokens,
                               std::string_view text);

}  // namespace pagedinfer
