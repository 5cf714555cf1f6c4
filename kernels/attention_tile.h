// The tile of query rows (attention_plan.h) that a thread block of attention computes, and the
// layout of query, key and value rows in shared memory.
#pragma once

#include "kernels/attention_plan.h"

namespace pagedinfer::kernels {

struct Tile {
  int start;                          // first token of the sequence
  int first_row;                      // among the sequence's rows
  int num_rows;                       // <= 0: the tile is empty and has no keys
  int first_position, last_position;  // of its first and last row
  int first_key, end_key;  // keys of the item's segments that a row sees; none if first >= end
};

// The item without its first `row` rows. Several thread blocks may share an item.
KERNEL_HD constexpr AttentionItem rows_from(AttentionItem item, int row) {
  item.first_row += row;
  if (item.state >= 0) item.state += row;
  return item;
}

KERNEL_HD constexpr Tile make_tile(const AttentionItem& item, int group, int tile_rows,
                                   int window) {
  Tile tile = {};
  tile.start = item.start;
  tile.first_row = item.first_row;
  tile.num_rows = min_of(tile_rows, item.seq_rows - item.first_row);
  if (tile.num_rows <= 0) return tile;
  tile.first_position = item.position + item.first_row / group;
  tile.last_position = item.position + (item.first_row + tile.num_rows - 1) / group;
  const KeyRange visible = visible_keys(tile.first_position, tile.last_position, window);
  tile.first_key = max_of(visible.begin, item.first_segment * kSegmentKeys);
  tile.end_key = min_of(visible.end, item.end_segment * kSegmentKeys);
  return tile;
}

// The tile of a thread block that computes `rows` rows of an item, from row `row` on. If the item
// writes states, it writes one for each row, even for a row that sees no key of the segment; so the
// tile then has the keys of the whole item.
KERNEL_HD constexpr Tile make_part(const AttentionItem& item, int row, int rows, int group,
                                   int tile_rows, int window) {
  Tile part = make_tile(rows_from(item, row), group, rows, window);
  if (rows == tile_rows || item.state < 0 || part.num_rows <= 0) return part;
  const Tile whole = make_tile(item, group, tile_rows, window);
  part.first_key = whole.first_key, part.end_key = whole.end_key;
  return part;
}

// The segments of a tile that is cut, all of which have states.
struct SegmentRange {
  int begin, end;
};
KERNEL_HD constexpr SegmentRange segments_of_cut(const AttentionItem& item, int group, int window) {
  const KeyRange keys =
      visible_keys(item.position, item.position + (item.seq_rows - 1) / group, window);
  return {keys.begin / kSegmentKeys, ceil_div(keys.end, kSegmentKeys)};
}

// Rows of D 2-byte elements in shared memory, as vectors of 16 bytes. ldmatrix reads the same
// vector of eight neighbouring rows at once; these lie in eight different groups of banks.
template <int D>
struct SharedRows {
  static constexpr int kVecs = D / 8;
  static constexpr bool kSwizzled = kVecs % 8 == 0;  // else each row is padded by one vector
  static constexpr int kStride = kSwizzled ? D : D + 8;

  // The first element of a row's vector. Eight rows further on it is 8 * kStride more.
  KERNEL_HD static constexpr int offset(int row, int vec) {
    return row * kStride + 8 * (kSwizzled ? vec / 8 * 8 + ((vec ^ row) & 7) : vec);
  }
};

}  // namespace pagedinfer::kernels
