// A row of logits, the sum of its weights and its largest logits, by one thread block. Private to
// the sampling kernels.
#pragma once

#include "kernels/sample_block.cuh"
#include "kernels/sample_sort.cuh"

namespace pagedinfer::kernels {
namespace {

constexpr int kThresholds = 16;  // logits that are tried as the lowest one of top-p
constexpr int kWarps = kDrawThreads / kWarp;

struct Shared {
  union {
    uint64_t keys[kSharedKeys];
    double prefix[kSharedKeys];  // prefix sums of blocks of weights
    float shares[kWarps][kThresholds];
    uint32_t histogram[256];
  };
  double few_prefix[kSharedKeys / kWeightBlock];
  float weights[kDrawThreads];
  double total;
  int count, chosen, first_dropped;
  uint32_t rank;
};

// The row that a thread block works on.
struct Row {
  const SampleArgs& a;
  const SampleSpace& space;
  Shared& shared;
  int64_t index;
  SampleRowArgs settings;
  const float* x;
  float largest;

  __device__ float weight(float logit) const {
    return weight_of(logit, largest, settings.temperature);
  }
  __device__ bool top_k() const { return has_top_k(settings, a.vocabulary); }
};

__device__ void load_row(Row& row) {
  row.settings = row.a.rows[row.index];
  row.x = row.a.logits + row.settings.logits_row * row.a.stride;
}

// Replaces the block sums by their prefix sums and returns the total.
__device__ double make_prefix_sums(double* sums, int count, Shared& shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = 0;
    for (int i = 0; i < count; ++i) sums[i] = sum = add_rn(sum, sums[i]);
    shared.total = sum;
  }
  __syncthreads();
  return shared.total;
}

// Leaves the prefix sums of the whole vocabulary's weights in shared.prefix and returns the total.
// weights_kernel() has computed the block sums.
__device__ double sum_vocabulary(const Row& row) {
  double* const prefix = row.shared.prefix;
  const float* const sums = row.space.block_sums + row.index * row.space.num_blocks;
  for (int i = threadIdx.x; i < row.space.num_blocks; i += kDrawThreads) prefix[i] = sums[i];
  return make_prefix_sums(prefix, row.space.num_blocks, row.shared);
}

struct Selected {
  uint32_t rank;
  int place;  // among the equal ones, from 1
};

// The count-th largest of rank(i) for i < size, by radix selection. REQUIRES: 0 < count <= size.
template <class F>
__device__ Selected select_rank(int size, int count, const F& rank, Shared& shared) {
  uint32_t found = 0, mask = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < 256; i += kDrawThreads) shared.histogram[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += kDrawThreads) {
      const uint32_t here = rank(i);
      if ((here & mask) == found) atomicAdd(&shared.histogram[here >> shift & 255], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int bin = 255, left = count;
      while (bin > 0 && static_cast<int>(shared.histogram[bin]) < left) {
        left -= static_cast<int>(shared.histogram[bin--]);
      }
      shared.rank = bin;
      shared.count = left;
    }
    __syncthreads();
    found |= shared.rank << shift;
    mask |= 255u << shift;
    count = shared.count;
    __syncthreads();
  }
  return {found, count};
}

// A rank that at least `count` logits reach (if that many are finite), and rarely many more.
__device__ uint32_t min_rank_of_largest(const Row& row, int count) {
  uint32_t rank = 0;
  if (count < row.space.num_groups) {
    const float* const groups = row.space.groups + row.index * row.space.num_groups;
    const auto rank_of_group = [&](int i) { return rank_of(groups[i]); };
    rank = select_rank(row.space.num_groups, count, rank_of_group, row.shared).rank;
  } else {
    const auto rank_of_id = [&](int i) { return rank_of(row.x[i]); };
    rank = select_rank(row.a.vocabulary, count, rank_of_id, row.shared).rank;
  }
  return rank > 0 ? rank : 1;
}

// Writes the keys of the tokens with a finite logit for which takes(logit, id), in any order and at
// most `room` of them. Returns how many there are.
template <class F>
__device__ int gather(const Row& row, uint64_t* keys, int room, const F& takes) {
  __syncthreads();
  if (threadIdx.x == 0) row.shared.count = 0;
  __syncthreads();
  const int lane = threadIdx.x % kWarp;
  for (int first = 0; first < row.a.vocabulary; first += kDrawThreads) {
    const int id = first + threadIdx.x;
    const float logit = id < row.a.vocabulary ? row.x[id] : -__builtin_huge_valf();
    const bool taken = is_finite(logit) && takes(logit, id);
    const uint32_t votes = __ballot_sync(~0u, taken);
    if (votes == 0) continue;
    int at = 0;
    if (lane == 0) at = atomicAdd(&row.shared.count, __popc(votes));
    at = __shfl_sync(~0u, at, 0) + __popc(votes & ((1u << lane) - 1));
    if (taken && at < room) keys[at] = key_of(logit, id);
  }
  __syncthreads();
  return row.shared.count;
}

}  // namespace
}  // namespace pagedinfer::kernels
