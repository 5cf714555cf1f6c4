// Which part of attention each thread block computes. Made on the host from the batch, once per
// step, for all layers with the same window. Knows nothing of devices.
//
// The queries of a sequence and the query heads that share a KV head form one list of rows,
// row = query * group + head within the group, which is cut into tiles. The context is cut into
// segments of kSegmentKeys keys at absolute multiples. Either one item computes all segments of a
// tile in order (state < 0), or the tile is *cut*: it has an item for each segment that its rows
// see. Items of a cut tile write states, and the last thread block to do so combines them in the
// same order. Both ways give the same bits. An item without rows does nothing; such items pad a
// launch to a fixed size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention_bounds.h"

namespace pagedinfer::kernels {

struct AttentionItem {
  int32_t seq = 0;
  int32_t start = 0;     // the sequence's first token in the batch
  int32_t position = 0;  // of that token; those of its next tokens follow
  int32_t seq_rows = 0;  // rows of the sequence
  int32_t first_row = 0;
  int32_t first_segment = 0, end_segment = 0;
  // Index of its first row's state. The next segment's states begin seq_rows later. -1: it writes
  // the output itself.
  int32_t state = -1;
  int32_t cut = -1;  // number of its tile among those of this size that are cut; -1: it is not
};

// Items of tiles of one size. Items with the most segments come first, so that the last thread
// blocks are short.
struct AttentionTiles {
  std::vector<AttentionItem> items = {};
  int num_cuts = 0;
};

struct AttentionPlan {
  AttentionTiles small;    // tiles of kSmallTileRows: decodes
  AttentionTiles large;    // tiles of kLargeTileRows: prompts, and decodes with larger groups
  int64_t num_states = 0;  // of both sizes together, each for one row
};

// What the device has room for.
struct AttentionLimits {
  int64_t max_states = 0;
  int blocks_at_once = 1;  // thread blocks of one KV head that run at the same time
};

// Plans a batch with these query_starts (num_seqs + 1) and positions (num_tokens), which ascend by
// 1 within a sequence; `group` is the number of query heads per KV head. Tiles are cut as far as
// that is needed to keep the device busy, the longest first, and no further than the limits allow.
// Overwrites `plan` and reuses its memory.
void plan_attention(std::span<const int32_t> query_starts, std::span<const int32_t> positions,
                    int group, int window, const AttentionLimits& limits, AttentionPlan& plan);

}  // namespace pagedinfer::kernels
