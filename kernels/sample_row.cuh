// A row of logits, the sum of its weights and its largest logits, by one thread block. Private to
// the sampling kernels.
#pragma once

#include "kernels/sample_block.cuh"
#include "kernels/sample_sort.cuh"

namespace pagedinfer::kernels {
namespace {

constexpr int kThresholds = 16;  // logits that are tried as the lowest one of top-p
constexpr int kWarps = kDrawThreads / kWarp;
constexpr int kAhead = 4;  // logits that a lane loads at once

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

// Replaces the block sums by their prefix sums and returns the total. The order of additions is
// part of the definition of a draw.
__device__ double make_prefix_sums(double* sums, int count, Shared& shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = 0;
    constexpr int kLoads = 8;
    for (int first = 0; first < count; first += kLoads) {
      double next[kLoads];  // loaded first: the compiler moves no load across a store
#pragma unroll
      for (int i = 0; i < kLoads; ++i) next[i] = first + i < count ? sums[first + i] : 0.0;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        if (first + i < count) sums[first + i] = sum = add_rn(sum, next[i]);
      }
    }
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
    if (threadIdx.x < kWarp) {
      // A lane has eight neighbouring bins, the first lane the highest ones.
      constexpr int kBins = 256 / kWarp;
      int bin = 255 - static_cast<int>(threadIdx.x) * kBins, own = 0;
#pragma unroll
      for (int i = 0; i < kBins; ++i) own += static_cast<int>(shared.histogram[bin - i]);
      int above = own;  // in the bins of the lanes before, once its own are taken off
#pragma unroll
      for (int by = 1; by < kWarp; by *= 2) {
        const int other = __shfl_up_sync(~0u, above, by);
        if (threadIdx.x >= by) above += other;
      }
      above -= own;
      if (above < count && count <= above + own) {
        int left = count - above;
        while (static_cast<int>(shared.histogram[bin]) < left) {
          left -= static_cast<int>(shared.histogram[bin--]);
        }
        shared.rank = bin;
        shared.count = left;
      }
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

// Reads the groups of logits whose largest one is_wanted. Calls use(ids, logits) with kAhead logits
// of them per lane; those that fill up the last call are -infinity. All lanes of a warp call it
// together.
template <class Wanted, class Use>
__device__ void for_each_group(const Row& row, const Wanted& is_wanted, const Use& use) {
  constexpr int kOfGroup = kGroup / kWarp;
  const float* const groups = row.space.groups + row.index * row.space.num_groups;
  const int lane = threadIdx.x % kWarp;
  for (int first = threadIdx.x - lane; first < row.space.num_groups; first += kDrawThreads) {
    const int own = first + lane;
    uint32_t wanted = __ballot_sync(~0u, own < row.space.num_groups && is_wanted(groups[own]));
    while (wanted != 0) {
      int ids[kAhead];
      float logits[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int group = wanted == 0 ? row.space.num_groups : first + __ffs(wanted) - 1;
        ids[i] = group * kGroup + i % kOfGroup * kWarp + lane;
        logits[i] = ids[i] < row.a.vocabulary ? row.x[ids[i]] : -__builtin_huge_valf();
        if (i % kOfGroup == kOfGroup - 1) wanted &= wanted - 1;
      }
      use(ids, logits);
    }
  }
}

// Writes the keys of the tokens with a finite logit for which takes(logit, id), in any order and at
// most `room` of them. Returns how many there are. may_take(x) must be true if it takes any token
// of a group whose largest logit is x.
template <class MayTake, class Takes>
__device__ int gather(const Row& row, uint64_t* keys, int room, const MayTake& may_take,
                      const Takes& takes) {
  __syncthreads();
  if (threadIdx.x == 0) row.shared.count = 0;
  __syncthreads();
  const int lane = threadIdx.x % kWarp;
  for_each_group(row, may_take, [&](const int(&ids)[kAhead], const float(&logits)[kAhead]) {
    uint32_t votes[kAhead];
    int num_taken = 0;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      votes[i] = __ballot_sync(~0u, is_finite(logits[i]) && takes(logits[i], ids[i]));
      num_taken += __popc(votes[i]);
    }
    if (num_taken == 0) return;
    int at = 0;
    if (lane == 0) at = atomicAdd(&row.shared.count, num_taken);
    at = __shfl_sync(~0u, at, 0);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int own = at + __popc(votes[i] & ((1u << lane) - 1));
      if ((votes[i] >> lane & 1) && own < room) keys[own] = key_of(logits[i], ids[i]);
      at += __popc(votes[i]);
    }
  });
  __syncthreads();
  return row.shared.count;
}

}  // namespace
}  // namespace pagedinfer::kernels
