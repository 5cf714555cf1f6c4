// What a thread block of attention works on, and where it keeps it.
#pragma once

#include "kernels/attention_bounds.h"
#include "kernels/attention_plan.h"

namespace pagedinfer::kernels {

struct Tile {
  int start;      // first token of the sequence
  int first_row;  // among the sequence's
  int num_rows;
  int first_position, last_position;
  int first_key, end_key;  // what any row sees of the item's segments; may be nothing
};

KERNEL_HD constexpr Tile make_tile(const AttentionItem& item, const int32_t* query_starts,
                                   const int32_t* positions, int group, int tile_rows, int window) {
  Tile tile = {};
  tile.start = query_starts[item.seq];
  tile.first_row = item.first_row;
  const int seq_rows = (query_starts[item.seq + 1] - tile.start) * group;
  tile.num_rows = smaller(tile_rows, seq_rows - item.first_row);
  tile.first_position = positions[tile.start + item.first_row / group];
  tile.last_position = positions[tile.start + (item.first_row + tile.num_rows - 1) / group];
  const KeyRange visible = visible_keys(tile.first_position, tile.last_position, window);
  tile.first_key = larger(visible.begin, item.first_segment * kSegmentKeys);
  tile.end_key = smaller(visible.end, item.end_segment * kSegmentKeys);
  return tile;
}

// Rows of D elements of 2 bytes in shared memory, in vectors of 16 bytes. The same vector of eight
// neighbouring rows, which ldmatrix reads at once, lies in eight different groups of banks.
template <int D>
struct SharedRows {
  static constexpr int kVecs = D / 8;
  static constexpr bool kSwizzled = kVecs % 8 == 0;  // else a vector of nothing ends each row
  static constexpr int kStride = kSwizzled ? D : D + 8;

  // Element at which a row's vector begins. Eight rows on it is 8 * kStride more, for any vector.
  KERNEL_HD static constexpr int offset(int row, int vec) {
    return row * kStride + 8 * (kSwizzled ? vec / 8 * 8 + ((vec ^ row) & 7) : vec);
  }
};

}  // namespace pagedinfer::kernels
