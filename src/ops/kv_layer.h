#pragma once

#include "core/tensor.h"

namespace pagedinfer {

// The cache of one layer. Its layout is private to the backend: DeviceMemory::allocate_kv() makes
// it, and only the Arithmetic of the same device reads and writes it.
struct KvLayer {
  Tensor k, v;
  int kv_heads = 0, head_dim = 0;
  int64_t num_positions = 0;
};

}  // namespace pagedinfer
