// Sorts keys by one thread block with the network of sample_math.h. Private to the sampling
// kernels.
#pragma once

#include "kernels/common.cuh"
#include "kernels/sample_math.h"

namespace pagedinfer::kernels {

constexpr int kDrawThreads = 512;  // per thread block
constexpr int kDrawBlocks = 2;     // on a multiprocessor: one waits for memory, the other computes
// Keys sorted in shared memory. Also the number of weight blocks in the largest vocabulary, 2^20.
constexpr int kSharedKeys = 4096;

// One round of the sorting network.
template <class PairOf>
__device__ void compare(uint64_t* keys, int count, int pairs, const PairOf& pair_of) {
  for (int i = threadIdx.x; i < pairs; i += kDrawThreads) {
    const KeyPair pair = pair_of(i);
    if (pair.high >= count) continue;
    const uint64_t a = keys[pair.low], b = keys[pair.high];
    if (b < a) keys[pair.low] = b, keys[pair.high] = a;
  }
  __syncthreads();
}

// Sorts `count` keys, at most `size`, which is a power of two. With is_half_done it only finishes a
// merge: the steps of distance size / 2 and less.
__device__ inline void sort_run(uint64_t* keys, int count, int size, bool is_half_done) {
  for (int run = is_half_done ? size : 2; run <= size; run *= 2) {
    if (!is_half_done) {
      compare(keys, count, size / 2, [&](int i) { return flip_pair(i, run); });
    }
    for (int distance = is_half_done ? run / 2 : run / 4; distance > 0; distance /= 2) {
      compare(keys, count, size / 2, [&](int i) { return step_pair(i, distance); });
    }
  }
}

// The smallest power of two that is at least 2 and at least n.
__device__ inline int power_of_two(int n) {
  int size = 2;
  while (size < n) size *= 2;
  return size;
}

// Sorts keys in global memory; rounds whose pairs are less than kSharedKeys apart run in shared
// memory.
__device__ inline void sort_big(uint64_t* keys, int count, uint64_t* shared_keys) {
  const auto near = [&](bool is_half_done) {
    for (int begin = 0; begin < count; begin += kSharedKeys) {
      const int here = count - begin < kSharedKeys ? count - begin : kSharedKeys;
      for (int i = threadIdx.x; i < here; i += kDrawThreads) shared_keys[i] = keys[begin + i];
      __syncthreads();
      sort_run(shared_keys, here, kSharedKeys, is_half_done);
      for (int i = threadIdx.x; i < here; i += kDrawThreads) keys[begin + i] = shared_keys[i];
      __syncthreads();
    }
  };
  near(false);
  const int size = power_of_two(count);
  for (int run = 2 * kSharedKeys; run <= size; run *= 2) {
    compare(keys, count, size / 2, [&](int i) { return flip_pair(i, run); });
    for (int distance = run / 4; distance >= kSharedKeys; distance /= 2) {
      compare(keys, count, size / 2, [&](int i) { return step_pair(i, distance); });
    }
    near(true);
  }
}

}  // namespace pagedinfer::kernels
