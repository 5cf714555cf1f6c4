#pragma once

#include "core/tensor.h"

namespace pagedinfer {

// Whether each row of a cache of this type has a scale, which its numbers are multiplied by.
constexpr bool has_scales(DType type) { return type == DType::kI8; }

// The cache of one layer. Its layout is private to the backend: DeviceMemory::allocate_kv() makes
// it, and only the Arithmetic of the same device reads and writes it.
struct KvLayer {
  Tensor k, v;
  int kv_heads = 0, head_dim = 0;
  int64_t num_positions = 0;
  // The scales of int8 rows, one float32 for each row of k and v; empty for other types.
  Tensor k_scale = {}, v_scale = {};

  // Bytes of a key or a value of one head, its scale included and padding left out.
  int64_t head_bytes() const {
    return head_dim * size_of(k.dtype) + (k_scale.empty() ? 0 : size_of(k_scale.dtype));
  }
};

}  // namespace pagedinfer
