// Which piece of attention a thread block computes. Made on the host once per step from the
// batch; good for every layer, whatever its window. Knows nothing of devices.
//
// The queries of a sequence and the query heads that share a KV head are one list of rows,
// row = query * group + head of the group, cut into tiles; the context is cut into segments of
// kSegmentKeys at absolute multiples. A tile either takes all its segments in order (state < 0)
// or is one of several items of one segment each, whose states the combine step takes in order.
// Both give the same bits. An item or combine step of no segments writes nothing: they fill up a
// launch.
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
  int32_t state;  // where the states of its rows begin, or -1: writes the output
};

struct AttentionCombine {
  int32_t seq;
  int32_t first_row;
  int32_t end_segment;
  int32_t state;  // of segment 0; segment s has the next s-th num_rows states
};

// Tiles of one size.
struct AttentionTiles {
  std::vector<AttentionItem> items = {};
  std::vector<AttentionCombine> combines = {};
};

struct AttentionPlan {
  AttentionTiles small;    // kSmallTileRows: decoding
  AttentionTiles large;    // kLargeTileRows: prompts, and groups of more heads than that
  int64_t num_states = 0;  // rows of states, of both sizes together
};

// query_starts (num_seqs + 1) and positions (num_tokens) as in a step's batch; group = heads per
// KV head. Where more than max_states states would be needed, only the longest contexts are cut.
// Reuses the plan's memory.
void plan_attention(std::span<const int32_t> query_starts, std::span<const int32_t> positions,
                    int group, int64_t max_states, AttentionPlan& plan);

}  // namespace pagedinfer::kernels
