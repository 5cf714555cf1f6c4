#include "ops/cuda/product_proof.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "kernels/check_rows.h"
#include "ops/cuda/device_arena.h"
#include "ops/cuda/device_error.h"
#include "ops/cuda/kernel_arguments.h"

namespace pagedinfer {
namespace {

constexpr int kTrials = 3;
// Rows of random numbers that differ; the others repeat them.
constexpr int kPeriod = 64;
int64_t aligned(int64_t bytes) { return align_up(bytes, DeviceArena::kStepAlignment); }
constexpr const char* kComparison = "a comparison of algorithms";

// Fills the halves of each row, the second one times `factor`; the last number of an odd row is 0.
void fill_halves(kernels::Type type, const kernels::Matrix& x, int64_t rows, int64_t cols,
                 int period, uint64_t seed, float factor, cudaStream_t stream) {
  const int64_t size = kernels::bytes_of(type), half = cols / 2;
  const auto fill = [&](int64_t first, int64_t count, float by) {
    kernels::launch_fill_rows({.type = type,
                               .out = {static_cast<char*>(x.data) + first * size, x.stride},
                               .num_rows = rows,
                               .cols = count,
                               .period = period,
                               .seed = seed,
                               .factor = by},
                              stream);
  };
  fill(0, half, 1.0f);
  fill(half, half, factor);
  fill(2 * half, cols - 2 * half, 0.0f);
  check_cuda(cudaGetLastError(), kComparison);
}

}  // namespace

void fill_x(kernels::Type type, const kernels::Matrix& x, int64_t rows, int64_t k, int period,
            uint64_t seed, cudaStream_t stream) {
  fill_halves(type, x, rows, k, period, seed, 1.0f, stream);
}

void fill_weight(kernels::Type type, const kernels::Matrix& weight, int64_t n, int64_t k,
                 uint64_t seed, cudaStream_t stream) {
  fill_halves(type, weight, n, k, static_cast<int>(n), seed, -1.0f, stream);
}

bool compare_bits(const ProductBench& bench, const ProductKey& key,
                  const ProductLibrary::Layouts& layouts, const void* weight,
                  const ProductAlgorithm& reference, std::map<ProvenAlgorithm, bool>& are_equal) {
  int64_t max_rows = 1;
  for (const auto& [trial, is_equal] : are_equal) max_rows = std::max(max_rows, trial.rows);
  const int64_t x_bytes = aligned(max_rows * key.x_stride * size_of(key.in));
  const int64_t out_bytes = aligned(max_rows * key.out_stride * size_of(key.out));
  const int64_t weight_bytes = aligned(key.n * key.weight_stride * size_of(key.in));
  const int64_t hash_bytes = aligned(kPeriod * int64_t{sizeof(uint64_t)});
  const int64_t count_bytes = std::ssize(are_equal) * int64_t{sizeof(int)};
  const int64_t trial_bytes = aligned(x_bytes + out_bytes + hash_bytes + count_bytes);
  const kernels::Type type = type_of(key.in);
  char* memory = bench.memory(trial_bytes + weight_bytes);
  const bool cancels = memory != nullptr;
  if (!cancels) memory = bench.memory(trial_bytes);
  if (memory == nullptr) throw Error("out of memory of the GPU to compare algorithms");
  const kernels::Matrix x = {memory, key.x_stride}, out = {memory + x_bytes, key.out_stride};
  auto* const hashes = reinterpret_cast<uint64_t*>(memory + x_bytes + out_bytes);
  auto* const counts = reinterpret_cast<int*>(memory + x_bytes + out_bytes + hash_bytes);
  if (cancels) {
    const kernels::Matrix made = {memory + trial_bytes, key.weight_stride};
    fill_weight(type, made, key.n, key.k, ~uint64_t{0}, bench.stream);
    weight = made.data;
  }
  std::vector<int> different(are_equal.size());
  const auto set = [&](void* to, int byte, int64_t bytes) {
    check_cuda(cudaMemsetAsync(to, byte, static_cast<size_t>(bytes), bench.stream), kComparison);
  };
  // Returns false if the library refuses the algorithm.
  const auto compute = [&](const ProductAlgorithm& algorithm, int64_t rows, int* num_different) {
    // What is not written differs.
    set(out.data, 0xff, rows * key.out_stride * size_of(key.out));
    if (!bench.library.try_multiply(layouts, {x.data, weight, out.data, rows, bench.workspace},
                                    algorithm, bench.stream)) {
      return false;
    }
    kernels::launch_check_rows({.type = type_of(key.out),
                                .x = out,
                                .num_rows = rows,
                                .cols = key.n,
                                .hashes = hashes,
                                .period = kPeriod,
                                .num_different = num_different},
                               bench.stream);
    check_cuda(cudaGetLastError(), kComparison);
    return true;
  };

  set(counts, 0, count_bytes);
  for (int trial = 0; trial < kTrials; ++trial) {
    // Later trials have other numbers and fewer rows.
    const int64_t rows = trial == 0 ? max_rows : std::min<int64_t>(max_rows, kPeriod);
    fill_x(type, x, rows, key.k, kPeriod, static_cast<uint64_t>(trial) << 32, bench.stream);
    if (!compute(reference, std::min<int64_t>(rows, kPeriod), nullptr)) return false;
    int* num_different = counts;
    for (auto& [tried, is_equal] : are_equal) {
      const bool runs = compute(tried.algorithm, std::min(rows, tried.rows), num_different++);
      is_equal = runs && (trial == 0 || is_equal);
    }
  }
  check_cuda(cudaMemcpyAsync(different.data(), counts, static_cast<size_t>(count_bytes),
                             cudaMemcpyDeviceToHost, bench.stream),
             kComparison);
  check_cuda(cudaStreamSynchronize(bench.stream), kComparison);
  const int* num_different = different.data();
  for (auto& [tried, is_equal] : are_equal) {
    if (*num_different++ != 0) is_equal = false;
  }
  return true;
}

AlgorithmProof::AlgorithmProof(std::vector<int64_t> max_rows_of, Compare compare)
    : max_rows_of_(std::move(max_rows_of)),
      compare_(std::move(compare)),
      found_(max_rows_of_.size()) {}

bool AlgorithmProof::try_each(const Proposal& proposal) {
  std::vector<std::optional<ProvenAlgorithm>> tried(found_.size());
  std::map<ProvenAlgorithm, bool> are_equal;
  for (size_t i = 0; i < found_.size(); ++i) {
    const ProductAlgorithm* const algorithm = found_[i] ? nullptr : proposal(i);
    if (algorithm == nullptr) continue;
    tried[i] = ProvenAlgorithm{*algorithm, max_rows_of_[i]};
    are_equal[*tried[i]] = false;
  }
  if (are_equal.empty()) return true;
  if (!compare_(are_equal)) return false;
  for (size_t i = 0; i < found_.size(); ++i) {
    if (tried[i] && are_equal.at(*tried[i])) found_[i] = tried[i]->algorithm;
  }
  return true;
}

int64_t AlgorithmProof::num_missing() const {
  return std::ranges::count(found_, false, &std::optional<ProductAlgorithm>::has_value);
}

}  // namespace pagedinfer
