#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "ops/attention_shape.h"
#include "ops/device_memory.h"

namespace pagedinfer {

constexpr int64_t kCopiesAtOnce = 1024;

// Device memory, in bytes, that steps within the bounds need beside the activations. Each step
// allocates the last two; the others are allocated once.
struct StepMemory {
  StepMemory(const AttentionShape& attention, const StepBounds& bounds, DType compute);

  int64_t products = 0;  // workspace of the products
  int64_t sample_lists =
      0;  // settings of sampled rows; if they do not fit, rows are sampled in several launches
  int64_t masks = 0;                             // of all sampled rows
  int64_t drawn = 0;                             // tokens of two steps and what is reported of them
  int64_t int8_input = 0;                        // of products
  int64_t expert_gates = 0, expert_outputs = 0;  // ExpertProductsArgs::gated and outputs
  int64_t copies = 0;                            // what copy_kv() copies at once
  int64_t counters = 0;                          // of attention
  int64_t arrays = 0;                            // the batch
  int64_t attention_states = 0;
  int64_t sampling = 0;  // its workspace

  int64_t total() const;  // with the gaps that alignment leaves
};

}  // namespace pagedinfer
