#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/files/tokenizer_config.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// A tokenizer.model, whose bytes are read with the sentencepiece library, and the tokens that
// `config` adds; `file` is for messages.
// Prepends the beginning-of-sequence token to prompts unless `config` says otherwise. Throws Error.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& file,
                                                        std::string_view bytes,
                                                        const TokenizerConfig& config);

}  // namespace pagedinfer
