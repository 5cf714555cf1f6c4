#include "kernels/attention_plan.h"

namespace pagedinfer::kernels {

void plan_attention(std::span<const int32_t> query_starts, std::span<const int32_t> positions,
                    int group, int64_t max_states, AttentionPlan& plan) {
  for (AttentionTiles* tiles : {&plan.small, &plan.large}) {
    tiles->items.clear();
    tiles->combines.clear();
  }
  plan.num_states = 0;
  const int num_seqs = max_of(static_cast<int>(query_starts.size()) - 1, 0);
  const auto rows_of = [&](int seq) { return (query_starts[seq + 1] - query_starts[seq]) * group; };
  const auto segments_of = [&](int seq, int last_row) {
    return positions[query_starts[seq] + last_row / group] / kSegmentKeys + 1;
  };
  // A sequence of one tile gives the device only one item per KV head, too few to keep it busy. If
  // such a tile has more than `max_whole_segments`, it is cut into one item per segment.
  int max_whole_segments = 1;
  const auto is_cut = [&](int seq) {
    const int rows = rows_of(seq);
    return rows > 0 && rows <= kLargeTileRows && segments_of(seq, rows - 1) > max_whole_segments;
  };
  const auto states_needed = [&] {
    int64_t states = 0;
    for (int seq = 0; seq < num_seqs; ++seq) {
      const int rows = rows_of(seq);
      if (is_cut(seq)) states += int64_t{rows} * segments_of(seq, rows - 1);
    }
    return states;
  };
  while (states_needed() > max_states) max_whole_segments *= 2;

  for (int seq = 0; seq < num_seqs; ++seq) {
    const int rows = rows_of(seq);
    const bool is_small = rows <= kSmallTileRows;
    const int tile_rows = is_small ? kSmallTileRows : kLargeTileRows;
    AttentionTiles& tiles = is_small ? plan.small : plan.large;
    if (is_cut(seq)) {
      const int segments = segments_of(seq, rows - 1);
      const int32_t first_state = static_cast<int32_t>(plan.num_states);
      for (int s = 0; s < segments; ++s) {
        tiles.items.push_back({seq, 0, s, s + 1, first_state + s * rows});
      }
      tiles.combines.push_back({seq, 0, segments, first_state});
      plan.num_states += int64_t{segments} * rows;
      continue;
    }
    // The last tile of a prompt sees the most keys, so it comes first.
    for (int row = (rows - 1) / tile_rows * tile_rows; row >= 0 && rows > 0; row -= tile_rows) {
      const int last_row = min_of(row + tile_rows, rows) - 1;
      tiles.items.push_back({seq, row, 0, segments_of(seq, last_row), -1});
    }
  }
}

}  // namespace pagedinfer::kernels
