// Which keys a query sees, and where the cache keeps them.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace pagedinfer::kernels {

constexpr int kSegmentKeys = 256;
constexpr int kSmallTileRows = 16, kLargeTileRows = 128;

// The query at `position` sees the keys [first_visible(), position]: all up to its own, or the last
// `window` of them if window > 0.
KERNEL_HD constexpr int first_visible(int position, int window) {
  return window > 0 && position >= window ? position + 1 - window : 0;
}

// The keys that at least one query of a tile sees, given the positions of its first and last query.
struct KeyRange {
  int begin, end;
};
KERNEL_HD constexpr KeyRange visible_keys(int first_position, int last_position, int window) {
  return {first_visible(first_position, window), last_position + 1};
}
// The part of `keys` in one segment; begin >= end if there is none.
KERNEL_HD constexpr KeyRange keys_of_segment(KeyRange keys, int segment) {
  return {max_of(keys.begin, segment * kSegmentKeys),
          min_of(keys.end, (segment + 1) * kSegmentKeys)};
}
// True if every query of the tile sees every key in [begin, end).
KERNEL_HD constexpr bool all_visible(int begin, int end, int first_position, int last_position,
                                     int window) {
  return end <= first_position + 1 && begin >= first_visible(last_position, window);
}

// Divides by the block size, with a shift if it is a power of two.
struct BlockDivisor {
  int block_size;
  int shift;  // log2(block_size), or -1
};
KERNEL_HD constexpr BlockDivisor block_divisor(int block_size) {
  if (block_size <= 0 || (block_size & (block_size - 1)) != 0) return {block_size, -1};
  int shift = 0;
  while ((1 << shift) < block_size) ++shift;
  return {block_size, shift};
}
// The position in the cache of a sequence's key; `block_row` is the sequence's row of the block
// table.
KERNEL_HD constexpr int cache_position(const int32_t* block_row, BlockDivisor divisor, int key) {
  const int block = divisor.shift >= 0 ? key >> divisor.shift : key / divisor.block_size;
  return block_row[block] + (key - block * divisor.block_size);
}

// The sequence that a token of the batch belongs to. REQUIRES: 0 <= token < query_starts[num_seqs].
KERNEL_HD constexpr int sequence_of(const int32_t* query_starts, int num_seqs, int token) {
  int first = 0, last = num_seqs - 1;
  while (first < last) {
    const int middle = (first + last + 1) / 2;
    if (query_starts[middle] <= token) {
      first = middle;
    } else {
      last = middle - 1;
    }
  }
  return first;
}

}  // namespace pagedinfer::kernels
