#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace pagedinfer {

// The tokenizer of a model directory: tokenizer.json, else tokenizer.model, with the additions of
// tokenizer_config.json; null if it has neither. Throws Error if a file cannot be read or uses an
// unknown feature.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& model_dir);

}  // namespace pagedinfer
