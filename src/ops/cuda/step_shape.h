// The sizes of a step's arrays, which are the key of its CUDA graph: what a step queues depends on
// nothing else. Decode steps are padded to one of few shapes, so that graphs can be replayed. Needs
// no GPU.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "core/batch.h"
#include "core/numbers.h"
#include "kernels/attention_plan.h"
#include "ops/attention_shape.h"
#include "ops/cuda/row_buckets.h"
#include "ops/device_memory.h"

namespace pagedinfer {

// Of the attention plan for one window.
struct PlanShape {
  int64_t small_items = 0, large_items = 0, states = 0;

  auto operator<=>(const PlanShape&) const = default;
};
struct StepShape {
  int64_t tokens = 0, sequences = 0, logits = 0;
  int64_t max_blocks = 0, block_size = 0;
  std::vector<PlanShape> plans = {};

  auto operator<=>(const StepShape&) const = default;
};

inline int64_t max_blocks(const StepBounds& bounds) {
  return (bounds.context + bounds.block_size - 1) / bounds.block_size;
}
// AttentionLimits::max_states. More states would only take memory: this much parallel work fills
// every device.
inline int64_t max_attention_states(const AttentionShape& attention, const StepBounds& bounds) {
  constexpr int64_t kMaxNumbers = int64_t{1} << 25;  // of all KV heads
  const int64_t width = std::max(int64_t{attention.kv_heads} * attention.head_dim, int64_t{1});
  const int64_t segments = (bounds.context + kernels::kSegmentKeys - 1) / kernels::kSegmentKeys;
  return std::min(bounds.sequences * segments * kernels::kLargeTileRows,
                  std::max<int64_t>(kMaxNumbers / width, 1024));
}
// For a device with so many multiprocessors.
inline kernels::AttentionLimits attention_limits(const AttentionShape& attention,
                                                 const StepBounds& bounds, int multiprocessors) {
  constexpr int kBlocks = 3;  // that a multiprocessor has shared memory for
  const int blocks_at_once = kBlocks * multiprocessors / std::max(attention.kv_heads, 1);
  return {.max_states = max_attention_states(attention, bounds),
          .blocks_at_once = std::max(blocks_at_once, 1)};
}

// One plan for each window.
inline void plan_step(const Batch& batch, const AttentionShape& attention,
                      const kernels::AttentionLimits& limits,
                      std::vector<kernels::AttentionPlan>& plans) {
  plans.resize(attention.windows.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    kernels::plan_attention(batch.query_starts, batch.positions, attention.group(),
                            attention.windows[i], limits, plans[i]);
  }
}

inline StepShape shape_of(const Batch& batch, std::span<const kernels::AttentionPlan> plans) {
  StepShape shape = {.tokens = batch.num_tokens(),
                     .sequences = batch.num_seqs(),
                     .logits = batch.num_logits(),
                     .max_blocks = batch.max_blocks,
                     .block_size = batch.block_size};
  for (const kernels::AttentionPlan& plan : plans) {
    shape.plans.push_back({.small_items = std::ssize(plan.small.items),
                           .large_items = std::ssize(plan.large.items),
                           .states = plan.num_states});
  }
  return shape;
}

// True for a decode step: every sequence has one token and one row of logits.
inline bool only_decodes(const StepShape& shape) {
  return shape.tokens > 0 && shape.tokens == shape.sequences && shape.tokens == shape.logits;
}

// The shape that a decode step is padded to, within the bounds. The padding is sequences of one
// token that sees no key and is not written to the cache, and attention items without segments.
// REQUIRES: only_decodes(shape), within the bounds, planned with max_attention_states().
inline StepShape padded(const StepShape& shape, const AttentionShape& attention,
                        const StepBounds& bounds) {
  StepShape result = shape;
  const int64_t rows = std::min({rows_bucket(shape.tokens), bounds.tokens, bounds.sequences});
  result.tokens = result.sequences = result.logits = rows;
  result.max_blocks = std::min(share_bucket(shape.max_blocks, 8, 4), max_blocks(bounds));
  const int group = attention.group();
  for (PlanShape& plan : result.plans) {
    plan.states = max_attention_states(attention, bounds);
    const auto pad = [&](int64_t& items, int tile_rows) {
      if (items == 0) return;
      const int64_t tiles =
          kernels::ceil_div(group, tile_rows);  // of a sequence whose tiles are not cut
      const int64_t by_cuts = items - shape.sequences * tiles;
      items = rows * tiles + std::min(share_bucket(by_cuts, 16, 8), plan.states / group);
    };
    pad(plan.small_items, kernels::kSmallTileRows);
    pad(plan.large_items, kernels::kLargeTileRows);
  }
  return result;
}

}  // namespace pagedinfer
