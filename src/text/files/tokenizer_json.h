// Reads tokenizer.json as the Hugging Face tokenizers library writes it, for byte-pair encoding
// only.
#pragma once

#include "io/json_file.h"
#include "text/bpe/bpe_tokenizer.h"

namespace pagedinfer {

// Throws Error naming the field if the file is invalid or uses an unknown feature.
BpeParts read_tokenizer_json(const JsonFile& file);

}  // namespace pagedinfer
