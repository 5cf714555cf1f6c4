// Sampling, first part: three kernels that read every logit once and are bound by it. They adjust
// the logits in place, find the largest logit of each group and chunk, and sum the weights of each
// block for rows that need the weights of the whole vocabulary. For rows with a report the last two
// run before the first as well, on the raw logits, and once more where a mask bounds the report.
#include "kernels/common.cuh"
#include "kernels/drawn_tokens.h"
#include "kernels/sample.h"
#include "kernels/sample_block.cuh"

namespace pagedinfer::kernels {
namespace {

constexpr int kAdjustThreads = 512;
constexpr int kWindow = 8192;  // ids that are counted at a time, in shared memory
constexpr uint32_t kInPrompt = 1u << 31;
constexpr int kThreads = 256;
enum class Logits { kRaw, kRawInMask, kAdjusted };

// Counts tokens and calls use(id, count) for each id of the vocabulary, kWindow ids at a time.
// tally(counter_of) adds up the tokens of a window: counter_of(id) is the counter of an id, nullptr
// for an id outside the window. All threads of the block call it.
template <class Tally, class Use>
__device__ void for_each_count(uint32_t (&counters)[kWindow], int vocabulary, const Tally& tally,
                               const Use& use) {
  for (int first = 0; first < vocabulary; first += kWindow) {
    const int size = min_of(vocabulary - first, kWindow);
    __syncthreads();  // the counters are no longer read
    for (int i = threadIdx.x; i < size; i += kAdjustThreads) counters[i] = 0;
    __syncthreads();
    tally(
        [&](int id) { return id >= first && id < first + size ? &counters[id - first] : nullptr; });
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += kAdjustThreads) use(first + i, counters[i]);
  }
}

// Keeps the raw logits of all tokens that a row lists and may be drawn.
__device__ void keep_listed(const SampleArgs& a, const SampleRowArgs& row, const float* x) {
  const auto keep = [&](const TokenRange& range) {
    for (int i = threadIdx.x; i < range.count; i += kAdjustThreads) {
      const int place = range.begin + i;
      a.report.listed[place] = x[resolved_token(a.tokens[place], a.drawn)];
    }
  };
  keep(row.bias), keep(row.allowed), keep(row.prompt), keep(row.generated);
  __syncthreads();
}

__device__ bool is_in_mask(const uint32_t* mask, int id) {
  return (mask[id / 32] >> (id % 32) & 1) != 0;
}

// Bias, allowed tokens, banned tokens, mask and penalties, in this order. One thread block per row.
__global__ void __launch_bounds__(kAdjustThreads) adjust_kernel(const SampleArgs a) {
  __shared__ uint32_t counters[kWindow];
  const SampleRowArgs row = a.rows[blockIdx.x];
  if (!row.adjusts) return;
  float* const x = a.logits + row.logits_row * a.stride;
  if (a.report.rows != nullptr && has_raw_row(row)) keep_listed(a, row, x);

  for (int i = threadIdx.x; i < row.bias.count; i += kAdjustThreads) {
    const int place = row.bias.begin + i;
    x[a.tokens[place]] = add_rn(x[a.tokens[place]], a.biases[place]);
  }
  if (row.allowed.count > 0) {
    const auto tally = [&](const auto& counter_of) {
      for (int i = threadIdx.x; i < row.allowed.count; i += kAdjustThreads) {
        uint32_t* const counter = counter_of(a.tokens[row.allowed.begin + i]);
        if (counter != nullptr) atomicOr(counter, 1u);
      }
    };
    for_each_count(counters, a.vocabulary, tally, [&](int id, uint32_t is_allowed) {
      if (is_allowed == 0) x[id] = -__builtin_huge_valf();
    });
  }
  __syncthreads();
  for (int i = threadIdx.x; i < row.banned.count; i += kAdjustThreads) {
    x[a.tokens[row.banned.begin + i]] = -__builtin_huge_valf();
  }
  if (row.mask >= 0) {
    __syncthreads();  // a banned token may be outside the mask
    const uint32_t* const mask = a.masks + row.mask * mask_words(a.vocabulary);
    for (int id = threadIdx.x; id < a.vocabulary; id += kAdjustThreads) {
      if (!is_in_mask(mask, id)) x[id] = -__builtin_huge_valf();
    }
  }
  if (!has_penalties(row)) return;

  // A counter is the number of times that the id was generated, and kInPrompt if it is in the
  // prompt.
  const auto tally = [&](const auto& counter_of) {
    for (int i = threadIdx.x; i < row.prompt.count; i += kAdjustThreads) {
      uint32_t* const counter = counter_of(a.tokens[row.prompt.begin + i]);
      if (counter != nullptr) atomicOr(counter, kInPrompt);
    }
    for (int i = threadIdx.x; i < row.generated.count; i += kAdjustThreads) {
      const int id = resolved_token(a.tokens[row.generated.begin + i], a.drawn);
      uint32_t* const counter = counter_of(id);
      if (counter != nullptr) atomicAdd(counter, 1u);
    }
  };
  for_each_count(counters, a.vocabulary, tally, [&](int id, uint32_t counter) {
    if (counter == 0) return;
    x[id] = penalized(x[id], row, counter & kInPrompt, static_cast<int>(counter & ~kInPrompt));
  });
}

// The largest logit of each group and of each chunk. A warp takes one group after another. kRaw:
// before the logits are adjusted, for rows with a report. kRawInMask: the groups only, for rows
// whose candidates are in the mask, once their weights are summed; other logits become -infinity.
template <Logits kLogits>
__global__ void __launch_bounds__(kThreads)
    largest_kernel(const SampleArgs a, const SampleSpace space) {
  __shared__ Largest of_warp[kThreads / kWarp];
  const int64_t row = blockIdx.x;
  const SampleRowArgs& settings = a.rows[row];
  if (kLogits == Logits::kRaw && !has_raw_row(settings)) return;
  if (kLogits == Logits::kRawInMask && !settings.candidates_in_mask) return;
  float* const x = a.logits + settings.logits_row * a.stride;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  constexpr int kGroups = kChunk / kGroup / (kThreads / kWarp);  // of a warp
  static_assert(kGroup == 2 * kWarp);

  float value[kGroups][2];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int first = blockIdx.y * kChunk + (warp * kGroups + g) * kGroup + lane;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int id = first + i * kWarp;
      value[g][i] = id < a.vocabulary ? x[id] : -__builtin_huge_valf();
    }
  }
  if constexpr (kLogits == Logits::kRawInMask) {
    const uint32_t* const mask = a.masks + settings.mask * mask_words(a.vocabulary);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int first = blockIdx.y * kChunk + (warp * kGroups + g) * kGroup + lane;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int id = first + i * kWarp;
        if (id >= a.vocabulary || is_in_mask(mask, id)) continue;
        x[id] = value[g][i] = -__builtin_huge_valf();
      }
    }
  }
  Largest best = none();
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int first = blockIdx.y * kChunk + (warp * kGroups + g) * kGroup;
    Largest here = none();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (is_finite(value[g][i])) here = better(here, {value[g][i], first + lane + i * kWarp});
    }
    here = warp_best(here);
    if (lane == 0 && first < a.vocabulary) {
      space.groups[row * space.num_groups + first / kGroup] = here.value;
    }
    best = better(best, here);
  }
  if constexpr (kLogits != Logits::kRawInMask) {
    if (lane == 0) of_warp[warp] = best;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (const Largest& other : of_warp) best = better(best, other);
    space.chunks[row * space.num_chunks + blockIdx.y] = best;
  }
}

// The sum of each block of weights, by sixteen threads. kRaw: as above, at temperature 1.
template <bool kRaw>
__global__ void __launch_bounds__(kThreads)
    weights_kernel(const SampleArgs a, const SampleSpace space) {
  static_assert(kThreads / kSumLanes * kWeightBlock == kChunk);
  const int64_t row = blockIdx.x;
  const SampleRowArgs& settings = a.rows[row];
  if (kRaw ? !has_raw_row(settings) : !needs_all_weights(settings, a.vocabulary)) return;
  const float temperature = kRaw ? 1.0f : settings.temperature;
  const float* const x = a.logits + settings.logits_row * a.stride;
  const float largest = largest_of_row(space, row).value;
  const int first = blockIdx.y * kChunk + threadIdx.x / kSumLanes * kWeightBlock;
  const float sum = sum_of_block(
      a.vocabulary - first, [&](int i) { return weight_of(x[first + i], largest, temperature); });
  if (threadIdx.x % kSumLanes == 0 && first < a.vocabulary) {
    space.block_sums[row * space.num_blocks + first / kWeightBlock] = sum;
  }
}

// Divides the workspace into the arrays of `space`; returns the bytes that they need together.
int64_t lay_out(int64_t rows, int64_t vocabulary, void* workspace, SampleSpace& space) {
  const auto parts = [&](int64_t size) { return (vocabulary + size - 1) / size; };
  space.num_chunks = static_cast<int>(parts(kChunk));
  space.num_groups = static_cast<int>(parts(kGroup));
  space.num_blocks = static_cast<int>(parts(kWeightBlock));
  int64_t bytes = 0;
  const auto take = [&]<class T>(T*& to, int64_t count) {
    to = reinterpret_cast<T*>(static_cast<char*>(workspace) + bytes);
    bytes += (count * int64_t{sizeof(T)} + 15) / 16 * 16;
  };
  take(space.chunks, rows * space.num_chunks);
  take(space.groups, rows * space.num_groups);
  take(space.block_sums, rows * space.num_blocks);
  take(space.min_ranks, rows);
  take(space.keys, (rows < kBigSlots ? rows : kBigSlots) * vocabulary);
  return bytes;
}

}  // namespace

int64_t sample_workspace_bytes(int64_t num_rows, int64_t vocabulary) {
  SampleSpace space;
  return lay_out(num_rows, vocabulary, nullptr, space);
}

void launch_sample(const SampleArgs& args, cudaStream_t stream) {
  if (args.num_rows == 0) return;
  SampleSpace space;
  lay_out(args.num_rows, args.vocabulary, args.workspace, space);
  const dim3 grid(args.num_rows, space.num_chunks);  // only x goes beyond 65,535
  const bool reports = args.report.rows != nullptr;
  if (reports) {
    launch_kernel(largest_kernel<Logits::kRaw>, grid, kThreads, 0, stream, args, space);
    launch_kernel(weights_kernel<true>, grid, kThreads, 0, stream, args, space);
    if (args.any_candidates_in_mask) {
      launch_kernel(largest_kernel<Logits::kRawInMask>, grid, kThreads, 0, stream, args, space);
    }
    launch_raw_rows(args, space, stream);
  }
  if (args.any_adjusted) {
    launch_kernel(adjust_kernel, args.num_rows, kAdjustThreads, 0, stream, args);
  }
  launch_kernel(largest_kernel<Logits::kAdjusted>, grid, kThreads, 0, stream, args, space);
  if (args.any_drawn) launch_kernel(weights_kernel<false>, grid, kThreads, 0, stream, args, space);
  launch_draw(args, space, stream);
  if (reports) launch_raw_drawn(args, stream);
}

}  // namespace pagedinfer::kernels
