#include "text/bpe/merge_table.h"

#include <bit>

#include "core/check.h"

namespace pagedinfer {

MergeTable::MergeTable(size_t expected)
    : slots_(std::bit_ceil(expected * 2 + 2)), mask_(slots_.size() - 1) {}

void MergeTable::add(TokenId left, TokenId right, uint32_t rank, TokenId merged) {
  const uint64_t pair = pair_of(left, right);
  size_t slot = start_of(pair);
  while (slots_[slot].pair != kFree && slots_[slot].pair != pair) slot = (slot + 1) & mask_;
  if (slots_[slot].pair == kFree) CHECK(++used_ * 2 <= slots_.size());
  slots_[slot] = {pair, {rank, merged}};
}

}  // namespace pagedinfer
