#pragma once

#include <cstdint>

#include "core/batch.h"
#include "kernels/attention_plan.h"
#include "ops/ops.h"

namespace pagedinfer {

// A run of int32 in a step's packed arrays.
struct PackedRange {
  int64_t first = 0, count = 0;
};

// A step's batch and its plan of attention as one block of int32, so that one copy brings all of
// it to the device. Each part begins at a multiple of 16 bytes.
struct StepArrays {
  PackedRange tokens, positions, slot_mapping, query_starts, context_lens, block_table,
      logit_tokens;
  PackedRange small_items, small_combines, large_items, large_combines;
  int64_t size = 0;
};

StepArrays lay_out(const Batch& batch, const kernels::AttentionPlan& plan);
// Writes lay_out(batch, plan).size numbers.
void pack(const Batch& batch, const kernels::AttentionPlan& plan, int32_t* to);

// The max_states of plan_attention(). More of them would only take memory: so many pieces of work
// fill any device.
int64_t most_attention_states(const StepBounds& bounds);
// The most that any step within the bounds packs.
int64_t most_packed(const StepBounds& bounds);

}  // namespace pagedinfer
