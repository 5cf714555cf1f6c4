// The layout of the CPU's KV cache. Keys and values are two arrays of rows; a row is the key or the
// value of one position in one KV head. Positions are divided into spans of 256. A span holds its
// 256 rows of the first head, then those of the next head, and so on. So the first positions of all
// heads are close together and a short prompt touches few pages, and the 256 rows of a head are
// enough to be read at full memory speed.
//
// A row of values is contiguous. The rows of keys are interleaved in groups of 16, by units of one
// number or two (kv_positions.h): unit 0 of all 16 rows, then unit 1 of all 16, and so on, so that
// a vector holds the same dimensions of 16 keys. Rows of int8 have a scale each, and the scales of
// keys and of values are two more arrays, in the order of the rows.
//
// Functions have internal linkage because this file is compiled for several instruction sets.
#pragma once

#include <cstdint>

namespace pagedinfer {

constexpr int kGroupPositions = 16;
constexpr int kSpanPositions = 256;

// Dimensions of a row, padding included. The padding is zero.
static constexpr int64_t padded_head_dim(int head_dim) { return (head_dim + 15) / 16 * 16; }

static constexpr int64_t padded_positions(int64_t num_positions) {
  return (num_positions + kSpanPositions - 1) / kSpanPositions * kSpanPositions;
}

// The row of a position's value, counted over all heads.
static constexpr int64_t kv_row(int64_t position, int head, int kv_heads) {
  return (position / kSpanPositions * kv_heads + head) * kSpanPositions + position % kSpanPositions;
}

// The index, in units from the beginning of the keys, of a unit of the key in row `row`.
static constexpr int64_t key_unit(int64_t row, int64_t unit, int64_t num_units) {
  return (row / kGroupPositions * num_units + unit) * kGroupPositions + row % kGroupPositions;
}

}  // namespace pagedinfer
