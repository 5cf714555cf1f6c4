// Reductions over a warp or a thread block in sampling. Private to the sampling kernels.
#pragma once

#include "kernels/common.cuh"
#include "kernels/sample_launch.h"

namespace pagedinfer::kernels {
namespace {

__device__ Largest none() { return {-__builtin_huge_valf(), 0x7fffffff}; }

// The larger logit; of equal ones the one with the smaller id.
__device__ Largest better(Largest a, Largest b) {
  return b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a;
}

__device__ Largest warp_best(Largest x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    x = better(x, {__shfl_xor_sync(~0u, x.value, offset), __shfl_xor_sync(~0u, x.id, offset)});
  }
  return x;
}

// The largest logit of a row. Every warp computes it on its own.
__device__ Largest largest_of_row(const SampleSpace& space, int64_t row) {
  const Largest* const chunks = space.chunks + row * space.num_chunks;
  Largest best = none();
  for (int i = threadIdx.x % kWarp; i < space.num_chunks; i += kWarp) {
    best = better(best, chunks[i]);
  }
  return warp_best(best);
}

// The sum of weight(i) for i < min(count, kWeightBlock), computed by sixteen neighbouring threads.
// Only the first of them returns the sum. All threads of a warp call it.
template <class F>
__device__ float sum_of_block(int count, const F& weight) {
  const int lane = threadIdx.x % kSumLanes;
  float sum = 0.0f;
  for (int i = lane; i < kWeightBlock && i < count; i += kSumLanes) sum = add_rn(sum, weight(i));
#pragma unroll
  for (int width = kSumLanes / 2; width > 0; width /= 2) {
    sum = add_rn(sum, __shfl_down_sync(~0u, sum, width, kSumLanes));
  }
  return sum;
}

}  // namespace
}  // namespace pagedinfer::kernels
