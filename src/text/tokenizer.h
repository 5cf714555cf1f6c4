#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/request.h"

namespace pagedinfer {

// Text to token ids and back. Every method may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The ids of a prompt, with the beginning-of-sequence token in front where the model wants
  // one. Special tokens that `text` spells out are plain text. REQUIRES: `text` is UTF-8.
  virtual std::vector<TokenId> encode(std::string_view text) const = 0;

  // What the token adds to a text that it stands in the middle of. May be a part of a
  // character. Empty for control tokens, the unknown token and ids beyond vocab_size().
  virtual std::string_view token_bytes(TokenId token) const = 0;

  virtual int vocab_size() const = 0;
};

// The tokenizer of a model directory; null if it has none. Throws Error for one that cannot
// be read.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& model_dir);

// One constructor for each kind.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model_file,
                                                        bool add_bos);

}  // namespace pagedinfer
