// Which keys a query sees, and where they lie.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace pagedinfer::kernels {

constexpr int kSegmentKeys = 256;
constexpr int kSmallTileRows = 16, kLargeTileRows = 128;

KERNEL_HD constexpr int smaller(int a, int b) { return a < b ? a : b; }
KERNEL_HD constexpr int larger(int a, int b) { return a > b ? a : b; }
KERNEL_HD constexpr int ceil_div(int a, int b) { return a / b + (a % b != 0); }

// Keys [first_visible, position] are those that a query sees.
KERNEL_HD constexpr int first_visible(int position, int window) {
  return window > 0 && position >= window ? position + 1 - window : 0;
}
KERNEL_HD constexpr bool is_visible(int key, int position, int window) {
  return key <= position && key >= first_visible(position, window);
}

// The keys that any of a tile's queries sees, by the positions of its first and last one.
struct KeyRange {
  int begin, end;
};
KERNEL_HD constexpr KeyRange visible_keys(int first_position, int last_position, int window) {
  return {first_visible(first_position, window), last_position + 1};
}
// Those of them in one segment; begin >= end if there are none.
KERNEL_HD constexpr KeyRange keys_of_segment(KeyRange keys, int segment) {
  return {larger(keys.begin, segment * kSegmentKeys),
          smaller(keys.end, (segment + 1) * kSegmentKeys)};
}
// True if every query of the tile sees every key in [begin, end).
KERNEL_HD constexpr bool all_visible(int begin, int end, int first_position, int last_position,
                                     int window) {
  return end <= first_position + 1 && begin >= first_visible(last_position, window);
}

// A division by the block size: a shift where it is a power of two.
struct BlockWalk {
  int block_size;
  int shift;  // or -1
};
KERNEL_HD constexpr BlockWalk block_walk(int block_size) {
  if (block_size <= 0 || (block_size & (block_size - 1)) != 0) return {block_size, -1};
  int shift = 0;
  while ((1 << shift) < block_size) ++shift;
  return {block_size, shift};
}
// Position in the cache of a sequence's key, by its row of the block table.
KERNEL_HD constexpr int cache_position(const int32_t* block_row, BlockWalk walk, int key) {
  const int block = walk.shift >= 0 ? key >> walk.shift : key / walk.block_size;
  return block_row[block] + (key - block * walk.block_size);
}

// The sequence that a token belongs to. REQUIRES: 0 <= token < query_starts[num_seqs].
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
