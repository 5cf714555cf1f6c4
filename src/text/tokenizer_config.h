#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/json_file.h"
#include "text/added_tokens.h"
#include "text/bpe_tokenizer.h"

namespace pagedinfer {

// An added token as JSON files write it, without its id. Throws Error.
AddedToken read_added_token(const JsonObject& entry);

// What a tokenizer_config.json says about ids and text.
struct TokenizerConfig {
  // Whether these stand around a prompt. A tokenizer.json says it itself, and this is not heeded.
  std::optional<bool> add_bos = {}, add_eos = {};
  bool legacy = false;  // of a tokenizer.model: text behind a special token begins a text
  std::vector<AddedToken> added = {};  // with their ids
  // Special tokens, with negative ids: those with a role, "bos_token" for example, and others.
  std::vector<AddedToken> named = {}, extra = {};
};

// Of a model directory; all absent if it has no such file. Throws Error.
TokenizerConfig read_tokenizer_config(const std::string& model_dir);

// Applies it to a tokenizer.json. `path` is named in errors. Throws Error.
void apply_config(const TokenizerConfig& config, const std::string& path, BpeParts& parts);

}  // namespace pagedinfer
