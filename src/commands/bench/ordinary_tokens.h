#pragma once

#include <vector>

#include "core/request.h"
#include "model/spec.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// The token ids that stand for a piece of text and nothing else: no special tokens, no ends, none
// that the model does not have. Without a tokenizer all but the ends. The tokenizer may be null.
std::vector<TokenId> ordinary_tokens(const ModelSpec& spec, const Tokenizer* tokenizer);

}  // namespace pagedinfer
