#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/request.h"

namespace pagedinfer {

// The merges of byte-pair encoding (Sennrich, Haddow and Birch 2016): which pairs of tokens are
// merged into which token, and in which order.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;  // the lowest is merged first
    TokenId merged;
  };

  explicit MergeTable(size_t expected);

  // Replaces the merge of a pair that was added before. REQUIRES: at most `expected` pairs.
  void add(TokenId left, TokenId right, uint32_t rank, TokenId merged);

  // Null if the pair is not merged.
  const Merge* find(TokenId left, TokenId right) const {
    const uint64_t pair = pair_of(left, right);
    for (size_t slot = start_of(pair);; slot = (slot + 1) & mask_) {
      if (slots_[slot].pair == pair) return &slots_[slot].merge;
      if (slots_[slot].pair == kFree) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  struct Slot {
    uint64_t pair = kFree;
    Merge merge = {};
  };

  static uint64_t pair_of(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t start_of(uint64_t pair) const {
    return static_cast<size_t>((pair * 0x9E3779B97F4A7C15u) >> 32 ^ pair) & mask_;
  }

  std::vector<Slot> slots_ = {};  // linear probing, at most half full
  size_t mask_ = 0;
  size_t used_ = 0;
};

// Merges adjacent symbols until no pair of them is in the table: always the pair of the lowest
// rank, of equal ranks the leftmost. O(n log n) time. Returns the number of pairs looked up, which
// is O(n).
int64_t merge_word(const MergeTable& merges, std::vector<TokenId>& symbols);

}  // namespace pagedinfer
