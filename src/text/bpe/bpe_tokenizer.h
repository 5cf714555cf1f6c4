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

// What a tokenizer.json says.
struct BpeParts {
  std::unique_ptr<Vocabulary> vocabulary = {};  // of the model, and the added tokens
  int vocab_size = 0;                           // without added tokens that are not in the model
  std::unique_ptr<Bpe> bpe = {};                // refers to the vocabulary
  std::vector<AddedToken> added = {};           // each is in the vocabulary
  Normalizer normalizer{{}};
  std::vector<PreTokenizerStep> pre_tokenizer = {};
  TokenText text = {};
  std::vector<TokenId> prefix = {}, suffix = {};  // around a prompt
};

// Text in steps: added tokens are cut out, what lies between is normalized, cut into words, and
// words become tokens.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeParts parts);

}  // namespace pagedinfer
