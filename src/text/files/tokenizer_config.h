#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/json_file.h"
#include "text/bpe/added_tokens.h"
#include "text/bpe/bpe_tokenizer.h"

namespace pagedinfer {

// What a tokenizer_config.json says about ids and text.
struct TokenizerConfig {
  // Whether these stand around a prompt. A tokenizer.json says it itself, and this is not heeded.
  std::optional<bool> add_bos = {}, add_eos = {};
  bool legacy = false;  // of a tokenizer.model: text behind a special token begins a text
  // Tokens with their ids, in the order of these: as listed here, or, without a list, in
  // added_tokens.json, beside which those of a tokenizer.json stay as they are. The ids of that
  // file are an order and no more, as in the reference: a new token has the next id, and one with
  // the id of an added token of a tokenizer.json is none.
  std::vector<AddedToken> added = {};
  bool lists_added = false;
  std::string added_from = {};     // the file of these, for messages
  std::string bos = {}, eos = {};  // as chat templates spell them; empty if there are none
  // Special tokens with negative ids, see SpecialTokens.
  std::vector<AddedToken> named = {}, extra = {};
};

// Of a model directory; all absent if it has no such file. Throws Error.
TokenizerConfig read_tokenizer_config(const std::string& model_dir);

// Applies it to a tokenizer.json. Throws Error.
void apply_config(const TokenizerConfig& config, BpeParts& parts);

}  // namespace pagedinfer
