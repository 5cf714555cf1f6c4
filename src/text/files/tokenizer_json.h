// tokenizer.json as the Hugging Face tokenizers library writes it, as far as it is byte-pair
// encoding. What is not known is refused, naming the field.
#pragma once

#include "io/json_file.h"
#include "text/bpe/bpe_tokenizer.h"

namespace pagedinfer {

// Throws Error.
BpeParts read_tokenizer_json(const JsonFile& file);

}  // namespace pagedinfer
