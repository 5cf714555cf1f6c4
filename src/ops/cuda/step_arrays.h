#pragma once

#include <cstdint>

#include "core/batch.h"
#include "kernels/attention_plan.h"
#include "ops/cuda/step_shape.h"
#include "ops/device_memory.h"

namespace pagedinfer {

// A range of int32 in a step's packed arrays.
struct PackedRange {
  int64_t first = 0, count = 0;
};

// The layout of a step's batch and attention plan as one block of int32, which one copy brings to
// the device. Each array begins at a multiple of 16 bytes.
struct StepArrays {
  PackedRange tokens, positions, slot_mapping, query_starts, context_lens, block_table,
      logit_tokens;
  PackedRange small_items, small_combines, large_items, large_combines;
  int64_t size = 0;
};

StepArrays lay_out(const StepShape& shape);
// Writes lay_out(shape).size numbers. REQUIRES: the shape is that of batch and plan, or
// padded() from it.
void pack(const Batch& batch, const kernels::AttentionPlan& plan, const StepShape& shape,
          int32_t* to);

// The maximum size of any step within the bounds, padded or not.
int64_t max_packed(const StepBounds& bounds);

}  // namespace pagedinfer
