// What a thread block of attention works on, and where it keeps it.
#pragma once

#include "kernels/attention_bounds.h"
#include "kernels/attention_plan.h"

namespace pagedinfer::kernels {

struct Tile {
  int start;      // first token of the sequence
  int first_row;  // among the sequence's
  int num_rows;   // where it is not positive, there are no keys either
  int first_position, last_position;
  int first_key, end_key;  // what any row sees of the item's segments; may be nothing
};

// Several thread blocks may share an item: its rows from `row` on.
KERNEL_HD constexpr AttentionItem rows_from(AttentionItem item, int row) {
  item.first_row += row;
  if (item.state >= 0) item.state += row;
  return item;
}

KERNEL_HD constexpr Tile make_tile(const AttentionItem& item, const int32_t* query_starts,
                                   const int32_t* positions, int group, int tile_rows, int window) {
  Tile tile = {};
  tile.start = query_starts[item.seq];
  tile.first_row = item.first_row;
  const int seq_rows = (query_starts[item.seq + 1] - tile.start) * group;
  tile.num_rows = smaller(tile_rows, seq_rows - item.first_row);
  if (tile.num_rows <= 0) return tile;
  tile.first_position = positions[tile.start + item.first_row / group];
  tile.last_position = positions[tile.start + (item.first_row + tile.num_rows - 1) / group];
  const KeyRange visible = visible_keys(tile.first_position, tile.last_position, window);
  tile.first_key = larger(visible.begin, item.first_segment * kSegmentKeys);
  tile.end_key = smaller(visible.end, item.end_segment * kSegmentKeys);
  return tile;
}

// Of a thread block that has `rows` of an item's, from `row` on. Where the item's state is asked
// for, rows that see nothing have one too, so the keys are then the whole item's.
KERNEL_HD constexpr Tile make_part(const AttentionItem& item, int row, int rows,
                                   const int32_t* query_starts, const int32_t* positions, int group,
                                   int tile_rows, int window) {
  Tile part = make_tile(rows_from(item, row), query_starts, positions, group, rows, window);
  if (rows == tile_rows || item.state < 0 || part.num_rows <= 0) return part;
  const Tile whole = make_tile(item, query_starts, positions, group, tile_rows, window);
  part.first_key = whole.first_key, part.end_key = whole.end_key;
  return part;
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
