#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe_tokenizer.h"

namespace pagedinfer {

// What a tokenizer_config.json says about ids and text.
struct TokenizerConfig {
  // Without either, the tokenizer file decides what stands around a prompt.
  std::optional<bool> add_bos = {}, add_eos = {};
  std::optional<std::string> bos = {}, eos = {};
  std::vector<AddedToken> added = {};     // with their ids
  std::vector<std::string> special = {};  // spelt out; the others have no ids here
};

// All absent if there is no such file. Throws Error.
TokenizerConfig read_tokenizer_config(const std::string& path);

// Applies it to a tokenizer.json. `path` is named in errors. Throws Error.
void apply_config(const TokenizerConfig& config, const std::string& path, BpeParts& parts);

}  // namespace pagedinfer
