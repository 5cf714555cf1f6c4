// Sampling, first part: what looks at every logit once, each bound by reading them. Logits are
// changed in place, then the largest of each group and chunk is found, then weights are summed by
// blocks where the whole vocabulary is drawn from.
#include "kernels/common.cuh"
#include "kernels/drawn_tokens.h"
#include "kernels/sample.h"
#include "kernels/sample_block.cuh"

namespace pagedinfer::kernels {
namespace {

constexpr int kAdjustThreads = 512;
constexpr int kCounters = 8192;  // ids whose occurrences are counted at a time
constexpr uint32_t kInPrompt = 1u << 31;
constexpr int kThreads = 256;

// One thread block per row. Biases of the same token are added in their order.
__global__ void __launch_bounds__(kAdjustThreads) adjust_kernel(const SampleArgs a) {
  // Whether allowed; then times generated, and the upper bit: in the prompt.
  __shared__ uint32_t counters[kCounters];
  const SampleRowArgs row = a.rows[blockIdx.x];
  float* const x = a.logits + blockIdx.x * a.stride;
  const auto known = [&](int id) { return id >= 0 && id < a.vocabulary; };

  const int32_t* const biased = a.tokens + row.bias.begin;
  for (int i = threadIdx.x; i < row.bias.count; i += kAdjustThreads) {
    const int id = biased[i];
    bool is_first = known(id);
    for (int j = 0; j < i && is_first; ++j) is_first = biased[j] != id;
    if (!is_first) continue;
    float sum = x[id];
    for (int j = i; j < row.bias.count; ++j) {
      if (biased[j] == id) sum = add_rn(sum, a.biases[row.bias.begin + j]);
    }
    x[id] = sum;
  }
  if (row.allowed.count > 0) {
    for (int first = 0; first < a.vocabulary; first += kCounters) {
      const int count = a.vocabulary - first < kCounters ? a.vocabulary - first : kCounters;
      __syncthreads();
      for (int i = threadIdx.x; i < count; i += kAdjustThreads) counters[i] = 0;
      __syncthreads();
      for (int i = threadIdx.x; i < row.allowed.count; i += kAdjustThreads) {
        const int id = a.tokens[row.allowed.begin + i] - first;
        if (id >= 0 && id < count) atomicOr(&counters[id], 1u);
      }
      __syncthreads();
      for (int i = threadIdx.x; i < count; i += kAdjustThreads) {
        if (counters[i] == 0) x[first + i] = -__builtin_huge_valf();
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < row.banned.count; i += kAdjustThreads) {
    const int id = a.tokens[row.banned.begin + i];
    if (known(id)) x[id] = -__builtin_huge_valf();
  }
  if (!has_penalties(row)) return;

  for (int first = 0; first < a.vocabulary; first += kCounters) {
    const int count = a.vocabulary - first < kCounters ? a.vocabulary - first : kCounters;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += kAdjustThreads) counters[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < row.prompt.count; i += kAdjustThreads) {
      const int id = a.tokens[row.prompt.begin + i] - first;
      if (id >= 0 && id < count) atomicOr(&counters[id], kInPrompt);
    }
    for (int i = threadIdx.x; i < row.generated.count; i += kAdjustThreads) {
      const int id = resolved_token(a.tokens[row.generated.begin + i], a.drawn) - first;
      if (id >= 0 && id < count) atomicAdd(&counters[id], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += kAdjustThreads) {
      const uint32_t counter = counters[i];
      if (counter == 0) continue;
      x[first + i] =
          penalized(x[first + i], row, counter & kInPrompt, static_cast<int>(counter & ~kInPrompt));
    }
  }
}

// A warp has a group at a time.
__global__ void __launch_bounds__(kThreads)
    largest_kernel(const SampleArgs a, const SampleSpace space) {
  __shared__ Largest of_warp[kThreads / kWarp];
  const int64_t row = blockIdx.x;
  const float* const x = a.logits + row * a.stride;
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
  if (lane == 0) of_warp[warp] = best;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const Largest& other : of_warp) best = better(best, other);
  space.chunks[row * space.num_chunks + blockIdx.y] = best;
}

// Sixteen threads have a block of weights.
__global__ void __launch_bounds__(kThreads)
    weights_kernel(const SampleArgs a, const SampleSpace space) {
  static_assert(kThreads / kSumLanes * kWeightBlock == kChunk);
  const int64_t row = blockIdx.x;
  const SampleRowArgs& settings = a.rows[row];
  if (!needs_all_weights(settings, a.vocabulary)) return;
  const float temperature = settings.temperature;
  const float* const x = a.logits + row * a.stride;
  const float largest = largest_of_row(space, row).value;
  const int first = blockIdx.y * kChunk + threadIdx.x / kSumLanes * kWeightBlock;
  const float sum = sum_of_block(
      a.vocabulary - first, [&](int i) { return weight_of(x[first + i], largest, temperature); });
  if (threadIdx.x % kSumLanes == 0 && first < a.vocabulary) {
    space.block_sums[row * space.num_blocks + first / kWeightBlock] = sum;
  }
}

// Where the parts of the workspace lie; the bytes of all of them.
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
  take(space.min_rank, rows);
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
  if (args.any_adjusted) {
    launch_kernel(adjust_kernel, args.num_rows, kAdjustThreads, 0, stream, args);
  }
  const dim3 grid(args.num_rows, space.num_chunks);  // only x goes beyond 65,535
  launch_kernel(largest_kernel, grid, kThreads, 0, stream, args, space);
  if (args.any_drawn) launch_kernel(weights_kernel, grid, kThreads, 0, stream, args, space);
  launch_draw(args, space, stream);
}

}  // namespace pagedinfer::kernels
