#include "kernels/attention_plan.h"

#include <algorithm>

namespace pagedinfer::kernels {
namespace {

// A sequence of the batch, or a tile of it.
struct Rows {
  int32_t seq, start, position, seq_rows;
  int32_t first_row, num_rows;
  int32_t first_segment, end_segment;  // that its rows see

  int segments() const { return end_segment - first_segment; }
};

// Calls use(tile, is_small) for each tile. The last tile of a prompt comes first, because it sees
// the most keys.
template <class Use>
void for_each_tile(std::span<const int32_t> query_starts, std::span<const int32_t> positions,
                   int group, int window, const Use& use) {
  for (size_t seq = 0; seq + 1 < query_starts.size(); ++seq) {
    const int32_t start = query_starts[seq], rows = (query_starts[seq + 1] - start) * group;
    if (rows == 0) continue;
    const int32_t position = positions[static_cast<size_t>(start)];
    const bool is_small = rows <= kSmallTileRows;
    const int tile_rows = is_small ? kSmallTileRows : kLargeTileRows;
    for (int row = (rows - 1) / tile_rows * tile_rows; row >= 0; row -= tile_rows) {
      const int num_rows = min_of(tile_rows, rows - row);
      const KeyRange keys =
          visible_keys(position + row / group, position + (row + num_rows - 1) / group, window);
      use(Rows{.seq = static_cast<int32_t>(seq),
               .start = start,
               .position = position,
               .seq_rows = rows,
               .first_row = row,
               .num_rows = num_rows,
               .first_segment = keys.begin / kSegmentKeys,
               .end_segment = ceil_div(keys.end, kSegmentKeys)},
          is_small);
    }
  }
}

}  // namespace

void plan_attention(std::span<const int32_t> query_starts, std::span<const int32_t> positions,
                    int group, int window, const AttentionLimits& limits, AttentionPlan& plan) {
  plan.num_states = 0;
  // A tile may be cut only if it has all rows of its sequence: a sequence with several tiles has
  // work for several thread blocks even without cuts.
  struct Size {
    int64_t segments = 0;        // of all tiles
    int max_whole_segments = 1;  // tiles of more are cut
  };
  Size small, large;
  std::vector<std::pair<Size*, Rows>> may_be_cut;
  for_each_tile(query_starts, positions, group, window, [&](const Rows& tile, bool is_small) {
    Size& size = is_small ? small : large;
    size.segments += tile.segments();
    if (tile.num_rows == tile.seq_rows) may_be_cut.emplace_back(&size, tile);
  });
  // A whole tile of at most half of what each place of the device computes leaves none of them
  // without work for long.
  for (Size* size : {&small, &large}) {
    const int64_t of_place = size->segments / max_of(limits.blocks_at_once, 1);
    size->max_whole_segments = static_cast<int>(std::max<int64_t>(1, of_place / 2));
  }
  const auto states_needed = [&] {
    int64_t states = 0;
    for (const auto& [size, tile] : may_be_cut) {
      if (tile.segments() > size->max_whole_segments) {
        states += int64_t{tile.num_rows} * tile.segments();
      }
    }
    return states;
  };
  while (states_needed() > limits.max_states) {
    small.max_whole_segments *= 2, large.max_whole_segments *= 2;
  }

  for (AttentionTiles* tiles : {&plan.small, &plan.large}) {
    tiles->items.clear();
    tiles->num_cuts = 0;
  }
  for_each_tile(query_starts, positions, group, window, [&](const Rows& tile, bool is_small) {
    AttentionTiles& tiles = is_small ? plan.small : plan.large;
    AttentionItem item = {.seq = tile.seq,
                          .start = tile.start,
                          .position = tile.position,
                          .seq_rows = tile.seq_rows,
                          .first_row = tile.first_row,
                          .first_segment = tile.first_segment,
                          .end_segment = tile.end_segment,
                          .state = -1,
                          .cut = -1};
    const Size& size = is_small ? small : large;
    if (tile.num_rows < tile.seq_rows || tile.segments() <= size.max_whole_segments) {
      tiles.items.push_back(item);
      return;
    }
    item.cut = tiles.num_cuts++;
    for (int s = tile.first_segment; s < tile.end_segment; ++s) {
      item.first_segment = s;
      item.end_segment = s + 1;
      item.state = static_cast<int32_t>(plan.num_states);
      tiles.items.push_back(item);
      plan.num_states += tile.num_rows;
    }
  });
  const auto is_longer = [](const AttentionItem& a, const AttentionItem& b) {
    return a.end_segment - a.first_segment > b.end_segment - b.first_segment;
  };
  for (AttentionTiles* tiles : {&plan.small, &plan.large}) {
    std::ranges::stable_sort(tiles->items, is_longer);
  }
}

}  // namespace pagedinfer::kernels
