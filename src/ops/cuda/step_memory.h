#pragma once

#include <cstdint>

#include "ops/device_memory.h"

namespace pagedinfer {

// Bytes of the device that steps within the bounds take beside the activations. The first three
// are taken once.
struct StepMemory {
  explicit StepMemory(const StepBounds& bounds);

  int64_t products = 0;      // workspace of the products
  int64_t sample_lists = 0;  // what some rows are sampled by; more are sampled in several goes
  int64_t drawn = 0;         // tokens of two steps
  int64_t arrays = 0;        // the batch
  int64_t attention = 0;     // states
  int64_t sampling = 0;      // its workspace

  int64_t total() const;  // with the gaps that alignment leaves
};

}  // namespace pagedinfer
