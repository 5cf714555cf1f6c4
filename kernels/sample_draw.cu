// Sampling, second part: a thread block draws the token of a row. If a filter (top-k, top-p, min-p)
// is set, it reads the logits once to gather the candidates and sorts them in shared memory. The
// rare row with more than kSharedKeys candidates is left to a second kernel, which sorts in global
// memory. One thread adds the sums in double: they are few, and their order decides the bits.
#include "kernels/sample_row.cuh"

namespace pagedinfer::kernels {
namespace {

// Draws by inversion: the index of the first of `count` weights at which the running sum exceeds
// u * total, where u is the row's random number. `prefix` holds the prefix sums of blocks.
template <class F>
__device__ int draw_index(const Row& row, const double* prefix, int count, double total,
                          const F& weight) {
  Shared& shared = row.shared;
  const SampleRowArgs& settings = row.settings;
  const double target =
      mul_rn(double{uniform_of(settings.key, settings.sample, settings.position)}, total);
  const int num_blocks = ceil_div(count, kWeightBlock);
  for (int i = threadIdx.x; i < num_blocks; i += kDrawThreads) {
    if (prefix[i] > target && (i == 0 || !(prefix[i - 1] > target))) shared.chosen = i;
  }
  __syncthreads();
  const int block = shared.chosen, first = block * kWeightBlock;
  const int in_block = count - first < kWeightBlock ? count - first : kWeightBlock;
  if (threadIdx.x < in_block) shared.weights[threadIdx.x] = weight(first + threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = block == 0 ? 0.0 : prefix[block - 1];
    int chosen = first;
    for (int i = 0; i < in_block; ++i) {
      if (shared.weights[i] > 0) chosen = first + i;
      sum = add_rn(sum, double{shared.weights[i]});
      if (sum > target) break;
    }
    shared.chosen = chosen;
  }
  __syncthreads();
  return shared.chosen;
}

// A rank such that the weights of the logits that reach it very likely sum to `share` or more.
// Tries the largest logit less 1, 2, ... kThresholds times the temperature, all in one pass.
__device__ uint32_t min_rank_for_share(const Row& row, double share) {
  float sums[kThresholds] = {};
  const auto threshold = [&](int i) { return row.largest - row.settings.temperature * (i + 1); };
  const float lowest = threshold(kThresholds - 1);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const auto add = [&](const int(&)[kAhead], const float(&logits)[kAhead]) {
#pragma unroll
    for (const float logit : logits) {
      const float weight = row.weight(logit);
#pragma unroll
      for (int s = 0; s < kThresholds; ++s) {
        if (logit >= threshold(s)) sums[s] += weight;
      }
    }
  };
  for_each_group(
      row, [&](float largest) { return largest >= lowest; }, add);
#pragma unroll
  for (int s = 0; s < kThresholds; ++s) {
    const float sum = lane_sum(sums[s]);
    if (lane == 0) row.shared.shares[warp][s] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    row.shared.rank = 1;  // every finite logit
    for (int s = kThresholds - 1; s >= 0; --s) {
      float sum = 0;
      for (int w = 0; w < kWarps; ++w) sum += row.shared.shares[w][s];
      if (sum >= share * (1 + 1e-6)) row.shared.rank = rank_of(threshold(s));
    }
    if (row.shared.rank == 0) row.shared.rank = 1;
  }
  __syncthreads();
  return row.shared.rank;
}

// Writes the keys of the candidates in any order, at most `room` of them, and returns how many
// there are. Candidates are the tokens that reach min_p if that is the only filter, else the tokens
// whose rank is at least min_rank.
__device__ int gather_candidates(const Row& row, uint32_t min_rank, uint64_t* keys, int room) {
  const bool by_weight = !row.top_k() && !(row.settings.top_p < 1.0f);
  const float min_weight = fminf(row.settings.min_p, 1.0f);  // the largest logit has weight 1
  // A larger logit may have a weight that is smaller by some last bits.
  const auto may_take = [&](float largest) {
    return by_weight ? row.weight(largest) >= min_weight * 0.9999f : rank_of(largest) >= min_rank;
  };
  return gather(row, keys, room, may_take, [&](float logit, int) {
    return by_weight ? row.weight(logit) >= min_weight : rank_of(logit) >= min_rank;
  });
}

// The smallest number of leading candidates whose weights sum to top_p * total; -1 if all of them
// sum to less.
__device__ int cut_to_share(const Row& row, const uint64_t* keys, int count, double total) {
  Shared& shared = row.shared;
  const double share = mul_rn(double{row.settings.top_p}, total);
  double sum = 0;  // of thread 0
  if (threadIdx.x == 0) shared.chosen = -1;
  for (int first = 0; first < count; first += kDrawThreads) {
    const int here = count - first < kDrawThreads ? count - first : kDrawThreads;
    __syncthreads();
    if (threadIdx.x < here) {
      shared.weights[threadIdx.x] = row.weight(logit_of(keys[first + threadIdx.x]));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 0; i < here && shared.chosen < 0; ++i) {
        sum = add_rn(sum, double{shared.weights[i]});
        if (sum >= share) shared.chosen = first + i + 1;
      }
    }
    __syncthreads();
    if (shared.chosen >= 0) break;
  }
  __syncthreads();
  const int kept = shared.chosen;
  __syncthreads();
  return kept;
}

// Removes the candidates whose weight is below min_p, but never the first; returns how many remain.
__device__ int cut_to_min_p(const Row& row, uint64_t* keys, int count) {
  Shared& shared = row.shared;
  const auto fails = [&](int i) {
    return i > 0 && row.weight(logit_of(keys[i])) < row.settings.min_p;
  };
  if (threadIdx.x == 0) shared.first_dropped = count, shared.count = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += kDrawThreads) {
    if (fails(i)) {
      atomicMin(&shared.first_dropped, i);
      atomicAdd(&shared.count, 1);
    }
  }
  __syncthreads();
  const int first_dropped = shared.first_dropped, kept = count - shared.count;
  __syncthreads();
  // Rarely a weight below min_p precedes one above it: weights of descending logits may rise by
  // their last bit.
  if (kept != first_dropped && threadIdx.x == 0) {
    int to = 0;
    for (int i = 0; i < count; ++i) {
      if (!fails(i)) keys[to++] = keys[i];
    }
  }
  __syncthreads();
  return kept;
}

// Leaves the prefix sums of the candidates' weights in `prefix` and returns the total.
__device__ double sum_candidates(const Row& row, const uint64_t* keys, int count, double* prefix) {
  const int num_blocks = ceil_div(count, kWeightBlock);
  // sum_of_block() shuffles within a whole warp, which sums two blocks. So the number of blocks is
  // rounded up to an even one: both halves of a warp then leave the loop together.
  for (int i = threadIdx.x / kSumLanes; i < (num_blocks + 1) / 2 * 2;
       i += kDrawThreads / kSumLanes) {
    const int first = i * kWeightBlock;
    const float sum =
        sum_of_block(count - first, [&](int j) { return row.weight(logit_of(keys[first + j])); });
    if (threadIdx.x % kSumLanes == 0 && i < num_blocks) prefix[i] = sum;
  }
  return make_prefix_sums(prefix, num_blocks, row.shared);
}

// The token drawn from sorted candidates. -1: top-p needs more candidates than these; never if
// is_all, i.e. if these are all tokens with a finite logit.
__device__ int draw_from(const Row& row, uint64_t* keys, int count, bool is_all, double all_weights,
                         double* prefix) {
  const SampleRowArgs& settings = row.settings;
  if (row.top_k() && settings.top_k < count) count = settings.top_k;
  if (settings.top_p < 1.0f) {
    const double total = row.top_k() ? sum_candidates(row, keys, count, prefix) : all_weights;
    const int kept = cut_to_share(row, keys, count, total);
    if (kept < 0 && !row.top_k() && !is_all) return -1;
    if (kept >= 0) count = kept;
  }
  if (settings.min_p > 0.0f) count = cut_to_min_p(row, keys, count);
  const double total = sum_candidates(row, keys, count, prefix);
  const int index =
      draw_index(row, prefix, count, total, [&](int i) { return row.weight(logit_of(keys[i])); });
  return id_of(keys[index]);
}

__global__ void __launch_bounds__(kDrawThreads, kDrawBlocks)
    draw_kernel(const SampleArgs a, const SampleSpace space) {
  __shared__ Shared shared;
  Row row = {a, space, shared, blockIdx.x, {}, nullptr, 0};
  load_row(row);
  const Largest largest = largest_of_row(space, row.index);
  row.largest = largest.value;
  uint32_t left = 0;
  int token = -1;
  if (!is_finite(largest.value)) {
    token = -1;
  } else if (is_greedy(row.settings)) {
    token = largest.id;
  } else if (!is_filtered(row.settings, a.vocabulary)) {
    const double total = sum_vocabulary(row);
    token = draw_index(row, shared.prefix, a.vocabulary, total,
                       [&](int i) { return row.weight(row.x[i]); });
  } else {
    double all_weights = 0;
    uint32_t min_rank = 1;
    if (row.top_k()) {
      min_rank = min_rank_of_largest(row, row.settings.top_k);
    } else if (row.settings.top_p < 1.0f) {
      all_weights = sum_vocabulary(row);
      min_rank = min_rank_for_share(row, mul_rn(double{row.settings.top_p}, all_weights));
    }
    const int count = gather_candidates(row, min_rank, shared.keys, kSharedKeys);
    left = min_rank;
    if (count <= kSharedKeys) {
      sort_run(shared.keys, count, power_of_two(count), false);
      token = draw_from(row, shared.keys, count, min_rank == 1, all_weights, shared.few_prefix);
      left = token < 0 ? 1 : 0;
    }
  }
  if (threadIdx.x == 0) {
    a.out[row.index] = token;
    space.min_ranks[row.index] = left;
  }
}

// Draws the rows that draw_kernel() has left. A thread block takes one row after another.
__global__ void __launch_bounds__(kDrawThreads, kDrawBlocks)
    draw_big_kernel(const SampleArgs a, const SampleSpace space) {
  __shared__ Shared shared;
  uint64_t* const keys = space.keys + int64_t{blockIdx.x} * a.vocabulary;
  for (int64_t index = blockIdx.x; index < a.num_rows; index += gridDim.x) {
    uint32_t min_rank = space.min_ranks[index];
    if (min_rank == 0) continue;
    Row row = {a, space, shared, index, {}, nullptr, 0};
    load_row(row);
    row.largest = largest_of_row(space, index).value;
    __syncthreads();
    const double all_weights =
        !row.top_k() && row.settings.top_p < 1.0f ? sum_vocabulary(row) : 0.0;
    int token = -1;
    while (true) {
      const int count = gather_candidates(row, min_rank, keys, a.vocabulary);
      sort_big(keys, count, shared.keys);
      token = draw_from(row, keys, count, min_rank == 1, all_weights, shared.prefix);
      if (token >= 0 || min_rank == 1) break;
      min_rank = 1;
    }
    if (threadIdx.x == 0) a.out[index] = token;
    __syncthreads();
  }
}

}  // namespace

void launch_draw(const SampleArgs& args, const SampleSpace& space, cudaStream_t stream) {
  launch_kernel(draw_kernel, args.num_rows, kDrawThreads, 0, stream, args, space);
  if (!args.any_filtered) return;
  const int slots = args.num_rows < kBigSlots ? args.num_rows : kBigSlots;
  launch_kernel(draw_big_kernel, slots, kDrawThreads, 0, stream, args, space);
}

}  // namespace pagedinfer::kernels
