// The sizes of a step's arrays, which are the key of its CUDA graph: what a step queues depends on
// nothing else. Decode steps are padded to one of few shapes, so that graphs can be replayed. Needs
// no GPU.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>

#include "core/batch.h"
#include "kernels/attention_plan.h"
#include "ops/device_memory.h"

namespace pagedinfer {

struct StepShape {
  int64_t tokens = 0, sequences = 0, logits = 0;
  int64_t max_blocks = 0, block_size = 0;
  int64_t small_items = 0, small_combines = 0, large_items = 0, large_combines = 0;
  int64_t states = 0;

  auto operator<=>(const StepShape&) const = default;
};

inline int group_of(const StepBounds& bounds) {
  return bounds.kv_heads > 0 ? bounds.heads / bounds.kv_heads : 1;
}
inline int64_t max_blocks(const StepBounds& bounds) {
  return (bounds.context + bounds.block_size - 1) / bounds.block_size;
}
// max_states for plan_attention(). More states would only take memory: this much parallel work
// fills every device.
inline int64_t max_attention_states(const StepBounds& bounds) {
  constexpr int64_t kMax = 32768;
  const int64_t segments = (bounds.context + kernels::kSegmentKeys - 1) / kernels::kSegmentKeys;
  return std::min(bounds.sequences * segments * kernels::kLargeTileRows, kMax);
}

inline StepShape shape_of(const Batch& batch, const kernels::AttentionPlan& plan) {
  const auto count = [](const auto& list) { return static_cast<int64_t>(list.size()); };
  return {.tokens = batch.num_tokens(),
          .sequences = batch.num_seqs(),
          .logits = batch.num_logits(),
          .max_blocks = batch.max_blocks,
          .block_size = batch.block_size,
          .small_items = count(plan.small.items),
          .small_combines = count(plan.small.combines),
          .large_items = count(plan.large.items),
          .large_combines = count(plan.large.combines),
          .states = plan.num_states};
}

// True for a decode step: every sequence has one token and one row of logits.
inline bool only_decodes(const StepShape& shape) {
  return shape.tokens > 0 && shape.tokens == shape.sequences && shape.tokens == shape.logits;
}

// Rounds `count` up to a multiple of max(min_step, p / shares), where p is `count` rounded up to a
// power of two.
constexpr int64_t share_bucket(int64_t count, int64_t shares, int64_t min_step) {
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
  const int64_t step = std::max(min_step, power / shares);
  return (count + step - 1) / step * step;
}
// Rounds a number of decode rows up to 1, 2, 4, 8, a multiple of 8, above 256 a multiple of 16, and
// so on.
constexpr int64_t decode_rows(int64_t rows) {
  return rows <= 8 ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)))
                   : share_bucket(rows, 32, 8);
}

// The shape that a decode step is padded to, within the bounds. The padding is sequences of one
// token that sees no key and is not written to the cache, and attention items without segments.
// REQUIRES: only_decodes(shape), within the bounds, planned with max_attention_states().
inline StepShape padded(const StepShape& shape, const StepBounds& bounds) {
  StepShape result = shape;
  const int64_t rows = std::min({decode_rows(shape.tokens), bounds.tokens, bounds.sequences});
  result.tokens = result.sequences = result.logits = rows;
  result.max_blocks = std::min(share_bucket(shape.max_blocks, 8, 4), max_blocks(bounds));
  result.states = max_attention_states(bounds);
  const int group = group_of(bounds);
  const auto pad = [&](int64_t& items, int64_t& combines, int tile_rows) {
    if (items == 0) return;
    const int64_t tiles =
        kernels::ceil_div(group, tile_rows);  // of a sequence whose tiles are not cut
    const int64_t by_cuts = items - shape.sequences * tiles;
    items = rows * tiles + std::min(share_bucket(by_cuts, 16, 8), result.states / group);
    combines = combines > 0 ? rows : 0;
  };
  pad(result.small_items, result.small_combines, kernels::kSmallTileRows);
  pad(result.large_items, result.large_combines, kernels::kLargeTileRows);
  return result;
}

}  // namespace pagedinfer
