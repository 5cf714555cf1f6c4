#pragma once

#include <memory>
#include <string>

#include "text/files/tokenizer_config.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// A tokenizer.model as the sentencepiece library reads it, with the tokens that `config` adds.
// The beginning of sequence stands in front of a prompt unless `config` says otherwise. Throws
// Error.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model_file,
                                                        const TokenizerConfig& config);

}  // namespace pagedinfer
