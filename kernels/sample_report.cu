// Sampling, third part: the numbers from which log probabilities are computed. One kernel runs
// before the logits are adjusted: a thread block adds a row's sums, gathers its largest logits in
// one pass and sorts them. The other looks up the raw logits of the drawn tokens. If a logit was
// adjusted, its token is in one of the row's lists.
#include "kernels/drawn_tokens.h"
#include "kernels/sample_row.cuh"

namespace pagedinfer::kernels {
namespace {

constexpr int kLookUpThreads = 256;

// Leaves the keys of the `count` largest logits in shared.keys, sorted; returns how many there are,
// which is less if fewer are finite. REQUIRES: 0 < count <= min(vocabulary, kSharedKeys).
__device__ int sort_largest(const Row& row, int count) {
  static_assert(kMaxReported <= kSharedKeys);
  uint64_t* const keys = row.shared.keys;
  const uint32_t min_rank = min_rank_of_largest(row, count);
  const auto reaches = [&](float logit, int = 0) { return rank_of(logit) >= min_rank; };
  int found = gather(row, keys, kSharedKeys, reaches, reaches);
  if (found > kSharedKeys) {  // many are equal, or close together
    const auto rank_at = [&](int id) { return rank_of(row.x[id]); };
    const Selected last = select_rank(row.a.vocabulary, count, rank_at, row.shared);
    // Among the ids of the last rank the smallest ones are taken.
    const auto reversed_id = [&](int id) { return rank_at(id) == last.rank ? ~id : 0; };
    const int last_id =
        static_cast<int>(~select_rank(row.a.vocabulary, last.place, reversed_id, row.shared).rank);
    found = gather(row, keys, kSharedKeys, reaches, [&](float logit, int id) {
      const uint32_t rank = rank_of(logit);
      return rank > last.rank || (rank == last.rank && id <= last_id);
    });
  }
  sort_run(keys, found, power_of_two(found), false);
  return min_of(found, count);
}

__global__ void __launch_bounds__(kDrawThreads, kDrawBlocks)
    raw_rows_kernel(const SampleArgs a, const SampleSpace space) {
  __shared__ Shared shared;
  Row row = {a, space, shared, blockIdx.x, {}, nullptr, 0};
  load_row(row);
  if (!has_raw_row(row.settings)) return;
  row.largest = largest_of_row(space, row.index).value;
  RawRow raw = {0.0, row.largest, 0};
  if (is_finite(row.largest)) {
    raw.sum = sum_vocabulary(row);
    const int asked = min_of(row.settings.num_candidates, a.vocabulary);
    if (asked > 0) raw.num_candidates = sort_largest(row, asked);
    RawLogit* const candidates = a.report.candidates + row.settings.candidates;
    for (int i = threadIdx.x; i < raw.num_candidates; i += kDrawThreads) {
      const int id = id_of(shared.keys[i]);
      candidates[i] = {id, row.x[id]};
    }
  }
  if (threadIdx.x == 0) a.report.rows[row.index] = raw;
}

__global__ void __launch_bounds__(kLookUpThreads) raw_drawn_kernel(const SampleArgs a) {
  constexpr int kNone = 0x7fffffff;
  __shared__ int found;  // a place of the token among those that the row lists
  const SampleRowArgs& first = a.rows[a.rows[blockIdx.x].first_row];
  if (!has_raw_row(first)) return;
  int token = a.out[blockIdx.x];
  if (token < 0 && first.allowed.count == 1) token = a.tokens[first.allowed.begin];
  if (threadIdx.x == 0) found = kNone;
  __syncthreads();
  // All occurrences of the token have the same raw logit.
  const auto look_up = [&](const TokenRange& range) {
    for (int i = threadIdx.x; i < range.count; i += kLookUpThreads) {
      const int place = range.begin + i;
      if (resolved_token(a.tokens[place], a.drawn) == token) atomicMin(&found, place);
    }
  };
  if (first.adjusts) {
    look_up(first.bias), look_up(first.allowed), look_up(first.prompt), look_up(first.generated);
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  a.report.drawn[blockIdx.x] = found != kNone ? a.report.listed[found]
                               : token < 0    ? float_of_bits(0x7fc00000)
                                              : a.logits[first.logits_row * a.stride + token];
}

}  // namespace

void launch_raw_rows(const SampleArgs& args, const SampleSpace& space, cudaStream_t stream) {
  launch_kernel(raw_rows_kernel, args.num_rows, kDrawThreads, 0, stream, args, space);
}

void launch_raw_drawn(const SampleArgs& args, cudaStream_t stream) {
  launch_kernel(raw_drawn_kernel, args.num_rows, kLookUpThreads, 0, stream, args);
}

}  // namespace pagedinfer::kernels
