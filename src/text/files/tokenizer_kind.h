#pragma once

#include <string>

namespace pagedinfer {

// Which tokenizer a model directory has, whether it is supported or not.
struct TokenizerKind {
  std::string file = {};  // its name in the directory; "" = there is none
  std::string kind = {};  // in words: "byte-level BPE"
};

// Throws Error if the file cannot be read.
TokenizerKind tokenizer_kind(const std::string& model_dir);

}  // namespace pagedinfer
