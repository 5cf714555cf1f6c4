// The parts of a tokenizer.json around its model. Every function throws Error for what it does
// not know.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "io/json_file.h"
#include "text/bpe/normalizer.h"
#include "text/bpe/pre_tokenizer.h"
#include "text/bpe/token_text.h"
#include "text/bpe/vocabulary.h"

namespace pagedinfer {

// Throws if `object` has something under another key.
void check_keys(const JsonObject& object, std::initializer_list<std::string_view> known);

// Each takes the whole file.
Normalizer read_normalizer(const JsonObject& root);
// `byte_level`: whether the words are bytes at the end.
std::vector<PreTokenizerStep> read_pre_tokenizer(const JsonObject& root, bool& byte_level);
TokenText read_decoder(const JsonObject& root);
// The tokens around a prompt. REQUIRES: the vocabulary has the added tokens too.
void read_post_processor(const JsonObject& root, const Vocabulary& vocabulary,
                         std::vector<TokenId>& prefix, std::vector<TokenId>& suffix);

}  // namespace pagedinfer
