// Where the cache keeps what. A head's keys and values lie together. The values of a position
// are a row. Its keys are a column: in groups of 16 positions (lanes), dword w of all of them is
// followed by dword w + 1 of all, so that a vector holds the same dimensions of 16 keys.
#pragma once

#include <cstdint>

namespace pagedinfer {

constexpr int kGroupPositions = 16;

// Dimensions that a row has room for; those beyond the head's are zero.
constexpr int64_t padded_head_dim(int head_dim) { return (head_dim + 15) / 16 * 16; }

constexpr int64_t padded_positions(int64_t num_positions) {
  return (num_positions + kGroupPositions - 1) / kGroupPositions * kGroupPositions;
}

// Index of a position's dword among those of its head.
constexpr int64_t key_dword(int64_t position, int64_t dword, int64_t num_dwords) {
  return (position / kGroupPositions * num_dwords + dword) * kGroupPositions +
         position % kGroupPositions;
}

}  // namespace pagedinfer
