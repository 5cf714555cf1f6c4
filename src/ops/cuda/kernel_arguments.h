// Tensors as arguments of kernels.
#pragma once

#include "core/check.h"
#include "core/tensor.h"
#include "kernels/kv.h"
#include "kernels/types.h"
#include "ops/cuda/device_error.h"
#include "ops/kv_layer.h"

namespace pagedinfer {

// The kernels' name of a type. REQUIRES: they compute in it.
inline kernels::Type type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return kernels::Type::kF32;
    case DType::kBF16: return kernels::Type::kBF16;
    case DType::kF16: return kernels::Type::kF16;
    case DType::kI32: break;
    case DType::kI8:
    case DType::kI4: break;
  }
  CHECK(false);
}

inline kernels::Matrix matrix(const Tensor& x) { return {x.data, x.stride}; }
inline const float* floats(const Tensor& x) {
  CHECK(x.dtype == DType::kF32);
  return static_cast<const float*>(x.data);
}
inline const int32_t* ints(const Tensor& x) {
  CHECK(x.dtype == DType::kI32);
  return static_cast<const int32_t*>(x.data);
}
inline bool same_shape(const Tensor& a, const Tensor& b) {
  return a.rows == b.rows && a.cols == b.cols && a.dtype == b.dtype;
}

inline kernels::KvCache cache_of(const KvLayer& layer) {
  return {.k = layer.k.data,
          .v = layer.v.data,
          .kv_heads = layer.kv_heads,
          .head_dim = layer.head_dim,
          .num_positions = layer.num_positions,
          .k_scale = static_cast<float*>(layer.k_scale.data),
          .v_scale = static_cast<float*>(layer.v_scale.data)};
}

// Throws Error if the kernel of `what` could not be queued.
inline void check_launch(const char* what) { check_cuda(cudaGetLastError(), what); }

}  // namespace pagedinfer
