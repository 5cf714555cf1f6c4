#pragma once

#include <memory>
#include <string>

#include "text/files/tokenizer_config.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// A tokenizer.model, read with the sentencepiece library, and the tokens that `config` adds.
// Prepends the beginning-of-sequence token to prompts unless `config` says otherwise. Throws Error.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model_file,
                                                        const TokenizerConfig& config);

}  // namespace pagedinfer
