#include "kernels/attention_plan.h"

namespace pagedinfer::kernels {

void plan_attention(std::span<const int32_t> query_starts, std::span<const int32_t> positions,
                    int group, AttentionPlan& plan) {
  for (AttentionTiles* tiles : {&plan.small, &plan.large}) {
    tiles->items.clear();
    tiles->combines.clear();
    tiles->num_states = 0;
  }
  for (int seq = 0; seq + 1 < static_cast<int>(query_starts.size()); ++seq) {
    const int start = query_starts[seq], rows = (query_starts[seq + 1] - start) * group;
    const bool is_small = rows <= kSmallTileRows;
    const int tile_rows = is_small ? kSmallTileRows : kLargeTileRows;
    AttentionTiles& tiles = is_small ? plan.small : plan.large;
    // The last tile of a prompt has the most to do and comes first.
    for (int row = (rows - 1) / tile_rows * tile_rows; row >= 0 && rows > 0; row -= tile_rows) {
      const int last_row = smaller(row + tile_rows, rows) - 1;
      const int segments = positions[start + last_row / group] / kSegmentKeys + 1;
      // A lone tile has nothing beside it that could keep the device busy.
      if (rows > tile_rows || segments == 1) {
        tiles.items.push_back({seq, row, 0, segments, -1});
        continue;
      }
      const int32_t state = static_cast<int32_t>(tiles.num_states);
      for (int s = 0; s < segments; ++s) tiles.items.push_back({seq, row, s, s + 1, state + s});
      tiles.combines.push_back({seq, row, segments, state});
      tiles.num_states += segments;
    }
  }
}

}  // namespace pagedinfer::kernels
