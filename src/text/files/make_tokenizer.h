#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace pagedinfer {

// The tokenizer of a model directory: tokenizer.json, or else tokenizer.model, with what
// tokenizer_config.json says of them; null if it has neither. Throws Error for one that cannot
// be read or asks for what is not known.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& model_dir);

}  // namespace pagedinfer
