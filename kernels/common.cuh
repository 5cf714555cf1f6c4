// What every kernel uses: conversions, 16-byte vectors, reductions over a warp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/launch.cuh"
#include "kernels/types.h"

namespace pagedinfer::kernels {

constexpr int kWarp = 32;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(int8_t x) { return static_cast<float>(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }

template <class T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}

// kCount elements that one instruction loads or stores.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vec {
  T at[kCount];
};
template <class T>
constexpr int kVecElements = 16 / int(sizeof(T));

template <int kCount, class T>
__device__ Vec<T, kCount> load_vec(const T* from) {
  return *reinterpret_cast<const Vec<T, kCount>*>(from);
}
template <int kCount, class T>
__device__ void store_vec(T* to, const Vec<T, kCount>& x) {
  *reinterpret_cast<Vec<T, kCount>*>(to) = x;
}

// Loads kCount floats, 16 bytes at a time if kCount is a multiple of 4: weights and tables for a
// vector of kCount elements of a narrower type.
template <int kCount>
__device__ Vec<float, kCount> load_f32(const float* from) {
  if constexpr (kCount % 4 != 0) {
    return load_vec<kCount>(from);
  } else {
    Vec<float, kCount> x;
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const auto four = load_vec<4>(from + i);
#pragma unroll
      for (int j = 0; j < 4; ++j) x.at[i + j] = four.at[j];
    }
    return x;
  }
}

// The sum over each group of kLanes lanes (a power of two), in every lane of the group.
template <int kLanes = kWarp>
__device__ float lane_sum(float x) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}
// The maximum over the warp, in every lane.
__device__ inline float lane_max(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
  }
  return x;
}

inline bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }
// True if rows of `cols` elements can be read 16 bytes at a time.
inline bool in_vectors(Type type, Matrix x, int64_t cols) {
  const int64_t count = 16 / bytes_of(type);
  return is_aligned(x.data) && x.stride % count == 0 && cols % count == 0;
}

// Calls f with a zero of the C++ type that `type` names.
template <class F>
void with_type(Type type, const F& f) {
  switch (type) {
    case Type::kF32: return f(float{});
    case Type::kBF16: return f(__nv_bfloat16{});
    case Type::kF16: return f(__half{});
  }
}

}  // namespace pagedinfer::kernels
