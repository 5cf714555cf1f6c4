#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/batch.h"
#include "kernels/attention_plan.h"
#include "ops/cuda/step_shape.h"
#include "ops/device_memory.h"

namespace pagedinfer {

// A range of int32 in a step's packed arrays.
struct PackedRange {
  int64_t first = 0, count = 0;
};

// The layout of a step's batch and attention plans as one block of int32, which one copy brings to
// the device. Each array begins at a multiple of 16 bytes.
struct StepArrays {
  struct Plan {
    PackedRange small_items, large_items;
  };
  PackedRange tokens, positions, slot_mapping, query_starts, context_lens, block_table,
      logit_tokens;
  std::vector<Plan> plans = {};
  int64_t size = 0;
};

StepArrays lay_out(const StepShape& shape);
// Writes lay_out(shape).size numbers. REQUIRES: the shape is that of batch and plans, or
// padded() from it.
void pack(const Batch& batch, std::span<const kernels::AttentionPlan> plans, const StepShape& shape,
          int32_t* to);

// The maximum size of any step within the bounds, padded or not.
int64_t max_packed(const AttentionShape& attention, const StepBounds& bounds);

}  // namespace pagedinfer
