// How byte-level tokenizers of GGUF files cut text into words before they encode them.
#pragma once

#include <string_view>

#include "core/json.h"
#include "io/json_file.h"

namespace pagedinfer {

struct GgufSplit {
  std::string_view name;  // "tokenizer.ggml.pre"
  std::string_view pattern;
  bool splits_digits = false;   // each is a word of its own
  bool ignores_merges = false;  // a word that is a token is not encoded
  bool adds_bos = false;        // unless the file says otherwise
  bool composes = false;        // text is normalized to NFC
};

// The one that the field names. Throws Error if it is not known.
const GgufSplit& find_split(const JsonObject& metadata, std::string_view key);

// Writes the field "pre_tokenizer" of tokenizer.json.
void write_pre_tokenizer(const GgufSplit& split, JsonWriter& json);

}  // namespace pagedinfer
