#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/request.h"
#include "text/bpe/merge_table.h"
#include "text/bpe/vocabulary.h"
#include "text/bpe/word_cache.h"

namespace pagedinfer {

struct BpeOptions {
  bool byte_level = false;     // a word's first symbols are its bytes, else its characters
  bool byte_fallback = false;  // a character without a token is tokens like <0x0A>, if all exist
  bool ignore_merges = false;  // a word that is a token is that token
  bool fuse_unk = false;       // unknown characters side by side are one unknown token
  std::optional<TokenId> unk = {};  // without one, unknown characters leave nothing
};

// Byte-pair encoding: a word to tokens. Knows nothing of how text becomes words. May be called
// from several threads at once.
class Bpe {
 public:
  // REQUIRES: every id of `options` and `merges` is in `vocabulary`, which outlives this. A word is
  // made of the tokens it has now: those that are added to it later are not the model's.
  Bpe(const Vocabulary& vocabulary, MergeTable merges, const BpeOptions& options);

  // Appends the tokens of `word`, which is UTF-8, or any bytes if byte-level. Always the same
  // for the same word; takes O(n log n).
  void encode(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  using Symbols = std::vector<TokenId>;

  // Of the model's tokens.
  std::optional<TokenId> find(std::string_view spelt) const;
  void first_symbols(std::string_view word, Symbols& symbols) const;
  bool append_bytes_of(std::string_view character, Symbols& symbols) const;

  const Vocabulary& vocabulary_;
  std::vector<bool> is_of_model_;  // by id
  MergeTable merges_;
  BpeOptions options_;
  std::array<TokenId, 256> byte_tokens_;   // byte-level: of a byte; fallback: <0xNN>; -1 = none
  std::array<TokenId, 128> ascii_tokens_;  // of a character; -1 = none
  std::unique_ptr<WordCache> cache_;
};

}  // namespace pagedinfer
