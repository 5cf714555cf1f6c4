// Where the cache keeps what. Positions are cut into spans of 256; in a span a head's keys lie
// together, then the next head's, and so do the values. The first positions of all heads are
// neighbours, so that a short prompt touches few pages, and a head's run of 256 rows is long enough
// to be read at the memory's speed. The values of a position are a row. Its keys are a column: in
// groups of 16 positions (lanes), dword w of all of them is followed by dword w + 1 of all, so that
// a vector holds the same dimensions of 16 keys.
//
// Functions have internal linkage: this file is compiled for several instruction sets.
#pragma once

#include <cstdint>

namespace pagedinfer {

constexpr int kGroupPositions = 16;
constexpr int kSpanPositions = 256;

// Dimensions that a row has room for; those beyond the head's are zero.
static constexpr int64_t padded_head_dim(int head_dim) { return (head_dim + 15) / 16 * 16; }

static constexpr int64_t padded_positions(int64_t num_positions) {
  return (num_positions + kSpanPositions - 1) / kSpanPositions * kSpanPositions;
}

// The row of a position's value among those of all heads.
static constexpr int64_t kv_row(int64_t position, int head, int kv_heads) {
  return (position / kSpanPositions * kv_heads + head) * kSpanPositions + position % kSpanPositions;
}

// Index of a dword of a position's key, whose row is `row`, among those of all heads.
static constexpr int64_t key_dword(int64_t row, int64_t dword, int64_t num_dwords) {
  return (row / kGroupPositions * num_dwords + dword) * kGroupPositions + row % kGroupPositions;
}

}  // namespace pagedinfer
