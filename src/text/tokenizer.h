#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/request.h"

namespace pagedinfer {

// The tokenizer cannot encode one text (a limit of time or memory); it can encode others.
struct EncodeError : Error {
  using Error::Error;
};

// Whether encode() adds the tokens that the model expects around a prompt (beginning of sequence).
// Chat templates write them into the text: such a text is encoded with kNo.
enum class AddBos : bool { kNo, kYes };

// The bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0, end = 0;
};

// The parts of a text that people wrote. A special token that is spelled in one of them is text,
// and so is an added token that is not special but stands in `also`, a chat template's text.
struct WrittenParts {
  std::span<const TextRange> ranges = {};  // ascending, apart from each other
  std::string_view also = {};

  // Whether [begin, end) lies in one of them.
  bool hold(size_t begin, size_t end) const;
  bool touch(size_t begin, size_t end) const;  // whether one has a byte of it
};

// Text to token ids and back. Every method may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The ids of a prompt. With kYes the beginning-of-sequence token is prepended if the model
  // expects one, even if `text` begins with it. Special tokens that `text` spells out become those
  // tokens, as in the reference, so untrusted text in a prompt can end its turn and begin another.
  // Throws EncodeError if splitting the text into words exceeds a limit of time or memory.
  // REQUIRES: `text` is UTF-8.
  virtual std::vector<TokenId> encode(std::string_view text, AddBos add_bos) const = 0;
  std::vector<TokenId> encode(std::string_view text) const { return encode(text, AddBos::kYes); }
  // The same, but nothing that people wrote becomes a special token. As it stands here, for
  // tokenizers without special tokens.
  virtual std::vector<TokenId> encode_apart(std::string_view text, AddBos add_bos,
                                            const WrittenParts&) const {
    return encode(text, add_bos);
  }

  // The added token with which the text begins, special or not, and its size in bytes.
  struct AddedPrefix {
    TokenId id;
    size_t size;
  };
  virtual std::optional<AddedPrefix> added_prefix(std::string_view) const { return std::nullopt; }

  // The id of the token with this spelling in the vocabulary, such as "<|im_end|>".
  virtual std::optional<TokenId> find_token(std::string_view text) const = 0;

  // The bytes that the token adds in the middle of a text: includes the leading space that some
  // tokenizers drop at the beginning of a text. May be a part of a character. Empty for special
  // tokens and unknown ids.
  virtual std::string_view token_bytes(TokenId token) const = 0;

  // The spelling of a special token; empty for other tokens and unknown ids.
  virtual std::string_view special_text(TokenId) const { return {}; }

  // Whether the token is one byte of a character that has no token (byte fallback).
  virtual bool is_byte(TokenId) const { return false; }

  // Ids are below it, except those of added tokens that the model does not have.
  virtual int vocab_size() const = 0;
};

}  // namespace pagedinfer
