#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/model_store.h"
#include "text/bpe/added_tokens.h"
#include "text/bpe/bpe_tokenizer.h"

namespace pagedinfer {

// The settings of a tokenizer_config.json that change ids or text.
struct TokenizerConfig {
  // Whether these tokens are put around a prompt. Ignored if there is a tokenizer.json, which says
  // so itself.
  std::optional<bool> add_bos = {}, add_eos = {};
  // As `legacy` in tokenizer_config.json; only used with a tokenizer.model. If true, text after an
  // added token gets a leading space (U+2581) like the beginning of a text, unless it has one.
  bool legacy = false;
  // Added tokens in the order of their ids: of the list in this file (lists_added), or else of
  // added_tokens.json, which does not change tokens of a tokenizer.json. As in the reference, the
  // ids of added_tokens.json only define an order: a new token gets the next free id, and a token
  // with the id of an added token of the tokenizer.json is ignored.
  std::vector<AddedToken> added = {};
  bool lists_added = false;
  std::string added_from = {};     // the file with `added`, for messages
  std::string bos = {}, eos = {};  // as chat templates spell them; empty if absent
  // Every special token that has a name ("bos_token"), in the order of transformers.
  std::vector<std::pair<std::string, std::string>> spellings = {};
  // Special tokens with negative ids, see SpecialTokens.
  std::vector<AddedToken> named = {}, extra = {};
};

// Reads the file of a model directory; returns defaults if there is none. Throws Error.
TokenizerConfig read_tokenizer_config(const ModelStore& model);

// Applies `config` to the parts of a tokenizer.json. Throws Error.
void apply_config(const TokenizerConfig& config, BpeParts& parts);

}  // namespace pagedinfer
