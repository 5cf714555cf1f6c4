#pragma once

#include <vector>

#include "core/request.h"
#include "model/spec.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// The token ids of the model that are plain text: no special tokens and no end tokens. The
// tokenizer may be null; then all ids but the end tokens are returned.
std::vector<TokenId> ordinary_tokens(const ModelSpec& spec, const Tokenizer* tokenizer);

}  // namespace pagedinfer
