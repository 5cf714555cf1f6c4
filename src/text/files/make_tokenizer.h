#pragma once

#include <memory>
#include <string>

#include "io/model_store.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// The tokenizer of a model directory: tokenizer.json, else tokenizer.model, with the additions of
// tokenizer_config.json; null if it has neither. Throws Error if a file cannot be read or uses an
// unknown feature.
std::unique_ptr<Tokenizer> make_tokenizer(const ModelStore& model);

// Throws Error if the tokenizer has more tokens than the model, of which config.json says that it
// has `vocab`.
void check_vocabulary(const ModelStore& model, const Tokenizer& tokenizer, int vocab);

// Which tokenizer a model directory has, whether it is supported or not.
struct TokenizerKind {
  std::string file = {};  // its name in the directory; "" = there is none
  std::string kind = {};  // in words: "byte-level BPE"
};

// Throws Error if the file cannot be read.
TokenizerKind tokenizer_kind(const ModelStore& model);

}  // namespace pagedinfer
