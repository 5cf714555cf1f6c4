#pragma once

#include <cstdint>

#include "core/batch.h"
#include "kernels/attention_plan.h"
#include "ops/cuda/step_shape.h"
#include "ops/device_memory.h"

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

StepArrays lay_out(const StepShape& shape);
// Writes lay_out(shape).size numbers. REQUIRES: the shape is that of batch and plan, or
// filled_up() from it.
void pack(const Batch& batch, const kernels::AttentionPlan& plan, const StepShape& shape,
          int32_t* to);

// The most that any step within the bounds packs, filled up or not.
int64_t max_packed(const StepBounds& bounds);

}  // namespace pagedinfer
