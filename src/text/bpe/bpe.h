#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/request.h"
#include "text/bpe/merges.h"
#include "text/bpe/vocabulary.h"
#include "text/bpe/word_cache.h"

namespace pagedinfer {

struct BpeOptions {
  bool byte_level = false;     // merging begins with a word's bytes, else with its characters
  bool byte_fallback = false;  // a character without a token becomes <0xNN> tokens, if all exist
  bool ignore_merges = false;  // a word that is a token is not merged from its symbols
  bool fuse_unk = false;       // adjacent unknown characters become one unknown token
  std::optional<TokenId> unk = {};  // if absent, unknown characters are dropped
};

// Byte-pair encoding of one word. Knows nothing of how text is split into words. May be called from
// several threads at once.
class Bpe {
 public:
  // Encodes with the tokens that `vocabulary` has now, not with those that are added later.
  // REQUIRES: every id of `options` and `merges` is in `vocabulary`, which outlives this.
  Bpe(const Vocabulary& vocabulary, MergeTable merges, const BpeOptions& options);

  // Appends the tokens of `word`: UTF-8, or any bytes if byte-level. O(n log n) time.
  void encode(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  using Symbols = std::vector<TokenId>;

  // The model's token with this spelling.
  std::optional<TokenId> find(std::string_view spelt) const;
  void first_symbols(std::string_view word, Symbols& symbols) const;
  bool append_bytes_of(std::string_view character, Symbols& symbols) const;

  const Vocabulary& vocabulary_;
  std::vector<bool> is_of_model_;  // by id: was in the vocabulary at construction
  MergeTable merges_;
  BpeOptions options_;
  std::array<TokenId, 256> byte_tokens_;   // by byte: its symbol, or <0xNN> if fallback; -1 = none
  std::array<TokenId, 128> ascii_tokens_;  // by character; -1 = none
  std::unique_ptr<WordCache> cache_;
};

}  // namespace pagedinfer
