// Which part of attention each thread block computes. Made on the host from the batch, once per
// step, for every layer whatever its window. Knows nothing of devices.
//
// The queries of a sequence and the query heads that share a KV head form one list of rows,
// row = query * group + head within the group, which is cut into tiles. The context is cut into
// segments of kSegmentKeys keys at absolute multiples. Either one item computes all segments of a
// tile in order (state < 0), or the tile has an item for each segment and the combine kernel joins
// their states in the same order. Both give the same bits. An item or a combine without segments
// does nothing; such entries pad a launch to a fixed size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention_bounds.h"

namespace pagedinfer::kernels {

struct AttentionItem {
  int32_t seq;
  int32_t first_row;
  int32_t first_segment, end_segment;
  int32_t state;  // index of its first row's state; -1: it writes the output itself
};

struct AttentionCombine {
  int32_t seq;
  int32_t first_row;
  int32_t end_segment;
  int32_t state;  // first state of segment 0; segment s begins s * (rows of the tile) later
};

// Tiles of one size.
struct AttentionTiles {
  std::vector<AttentionItem> items = {};
  std::vector<AttentionCombine> combines = {};
};

struct AttentionPlan {
  AttentionTiles small;    // tiles of kSmallTileRows: decodes
  AttentionTiles large;    // tiles of kLargeTileRows: prompts, and decodes with larger groups
  int64_t num_states = 0;  // of both sizes together, each for one row
};

// Plans a batch with these query_starts (num_seqs + 1) and positions (num_tokens); `group` is the
// number of query heads per KV head. If cutting every tile would need more than max_states states,
// only those with the longest contexts are cut. Overwrites `plan` and reuses its memory.
void plan_attention(std::span<const int32_t> query_starts, std::span<const int32_t> positions,
                    int group, int64_t max_states, AttentionPlan& plan);

}  // namespace pagedinfer::kernels
