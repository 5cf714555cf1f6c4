#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/request.h"
#include "text/encode_error.h"

namespace pagedinfer {

// Whether encode() adds the tokens that the model wants around a prompt. A text that has them
// already, as a chat template writes it, is encoded without.
enum class AddBos : bool { kNo, kYes };

// Text to token ids and back. Every method may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The ids of a prompt. With kYes the beginning-of-sequence token stands in front where the
  // model wants one, even if `text` begins with it. Special tokens that `text` spells out are
  // those tokens, as in the reference: whoever puts untrusted text into a prompt lets it end
  // turns and begin others. Throws EncodeError for a text that it cannot cut into words within its
  // limits of time and memory. REQUIRES: `text` is UTF-8.
  virtual std::vector<TokenId> encode(std::string_view text, AddBos add_bos) const = 0;
  std::vector<TokenId> encode(std::string_view text) const { return encode(text, AddBos::kYes); }

  // The id of the token that is spelt `text` in the vocabulary: "<|im_end|>" for example.
  virtual std::optional<TokenId> find_token(std::string_view text) const = 0;

  // What the token adds to a text that it stands in the middle of: the space that some
  // tokenizers drop at the beginning of a text is there. May be a part of a character. Empty for
  // special tokens and ids that are none.
  virtual std::string_view token_bytes(TokenId token) const = 0;

  // How a token is spelt that token_bytes() leaves out; empty for ids that are none.
  virtual std::string_view special_text(TokenId) const { return {}; }

  // Whether the token is one byte, for a character that has no token. Bytes side by side that
  // are not UTF-8 as a whole are U+FFFD each.
  virtual bool is_byte(TokenId) const { return false; }

  // Ids are below it, but for added tokens: a tokenizer may have some that its model lacks.
  virtual int vocab_size() const = 0;
};

}  // namespace pagedinfer
