#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/bpe/added_tokens.h"
#include "text/bpe/bpe.h"
#include "text/bpe/normalizer.h"
#include "text/bpe/pre_tokenizer.h"
#include "text/bpe/token_text.h"
#include "text/bpe/vocabulary.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// The parts of a tokenizer.json.
struct BpeParts {
  std::unique_ptr<Vocabulary> vocabulary = {};  // the model's tokens and the added tokens
  int vocab_size = 0;                           // of the model's tokens alone
  std::unique_ptr<Bpe> bpe = {};                // refers to the vocabulary
  std::vector<AddedToken> added = {};           // each is in the vocabulary
  Normalizer normalizer{{}};
  std::vector<PreTokenizerStep> pre_tokenizer = {};
  TokenText text = {};
  std::vector<TokenId> prefix = {}, suffix = {};  // around a prompt
};

// A tokenizer that finds added tokens, normalizes the text between them, splits it into words and
// encodes each word.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeParts parts);

}  // namespace pagedinfer
