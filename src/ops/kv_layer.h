#pragma once

#include "core/tensor.h"

namespace pagedinfer {

// One layer's cache. Its layout is the backend's business: made by DeviceMemory::allocate_kv(),
// read and written by the Arithmetic of the same device.
struct KvLayer {
  Tensor k, v;
  int kv_heads = 0, head_dim = 0;
  int64_t num_positions = 0;
};

}  // namespace pagedinfer
