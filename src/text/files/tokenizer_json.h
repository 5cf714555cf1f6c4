// Reads tokenizer.json as the Hugging Face tokenizers library writes it, for byte-pair encoding
// only.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "io/json_file.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/bpe/normalizer.h"
#include "text/bpe/pre_tokenizer.h"
#include "text/bpe/token_text.h"
#include "text/bpe/vocabulary.h"

namespace pagedinfer {

// Throws Error naming the field if the file is invalid or uses an unknown feature.
BpeParts read_tokenizer_json(const JsonFile& file);

// The parts around its model. Each function throws Error for an unknown feature; this one if
// `object` has a key that is neither `known` nor null.
void check_keys(const JsonObject& object, std::initializer_list<std::string_view> known);

// Each takes the root of the file.
Normalizer read_normalizer(const JsonObject& root);
// Sets `byte_level` if the last step turns words into byte-level letters.
std::vector<PreTokenizerStep> read_pre_tokenizer(const JsonObject& root, bool& byte_level);
TokenText read_decoder(const JsonObject& root);
// Reads the tokens around a prompt. REQUIRES: the vocabulary includes the added tokens.
void read_post_processor(const JsonObject& root, const Vocabulary& vocabulary,
                         std::vector<TokenId>& prefix, std::vector<TokenId>& suffix);

}  // namespace pagedinfer
