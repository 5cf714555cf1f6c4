#include "ops/cuda/product_proof.h"

#include <algorithm>

#include "kernels/check_rows.h"
#include "ops/cuda/device_arena.h"
#include "ops/cuda/device_error.h"
#include "ops/cuda/kernel_type.h"

namespace pagedinfer {
namespace {

constexpr int kTrials = 3;
// Rows of random numbers that differ; the others repeat them.
constexpr int kPeriod = 64;
// Rows of the first trial, enough for several tiles on each multiprocessor. Later trials have other
// numbers and kPeriod rows.
constexpr int64_t kMaxRows = 1024;
int64_t aligned(int64_t bytes) { return align_up(bytes, DeviceArena::kStepAlignment); }
constexpr const char* kComparison = "a comparison of algorithms";

}  // namespace

std::vector<bool> equal_bits(const ProductBench& bench, const ProductKey& key,
                             const ProductLibrary::Layouts& layouts, const void* weight,
                             int64_t max_rows, const ProductAlgorithm& reference,
                             std::span<const ProvenAlgorithm> algorithms) {
  if (algorithms.empty()) return {};
  const int64_t all_rows = std::min(max_rows, kMaxRows);
  const int64_t x_bytes = aligned(all_rows * key.x_stride * size_of(key.in));
  const int64_t out_bytes = aligned(all_rows * key.out_stride * size_of(key.out));
  const int64_t hash_bytes = aligned(kPeriod * int64_t{sizeof(uint64_t)});
  const int64_t count_bytes = std::ssize(algorithms) * int64_t{sizeof(int)};
  char* const memory = bench.memory(x_bytes + out_bytes + hash_bytes + count_bytes);
  const kernels::Matrix x = {memory, key.x_stride}, out = {memory + x_bytes, key.out_stride};
  auto* const hashes = reinterpret_cast<uint64_t*>(memory + x_bytes + out_bytes);
  auto* const counts = reinterpret_cast<int*>(memory + x_bytes + out_bytes + hash_bytes);
  std::vector<int> different(algorithms.size());
  const auto set = [&](void* to, int byte, int64_t bytes) {
    check_cuda(cudaMemsetAsync(to, byte, static_cast<size_t>(bytes), bench.stream), kComparison);
  };
  const auto compute = [&](const ProductAlgorithm& algorithm, int64_t rows, int* num_different) {
    set(out.data, 0xff, out_bytes);  // what is not written differs
    bench.library.multiply(layouts, {x.data, weight, out.data, rows, bench.workspace}, algorithm,
                           bench.stream);
    kernels::launch_check_rows({.type = type_of(key.out),
                                .x = out,
                                .num_rows = rows,
                                .cols = key.n,
                                .hashes = hashes,
                                .period = kPeriod,
                                .num_different = num_different},
                               bench.stream);
    check_cuda(cudaGetLastError(), kComparison);
  };

  set(counts, 0, count_bytes);
  for (int trial = 0; trial < kTrials; ++trial) {
    const int64_t rows = trial == 0 ? all_rows : std::min<int64_t>(all_rows, kPeriod);
    kernels::launch_fill_rows({.type = type_of(key.in),
                               .out = x,
                               .num_rows = rows,
                               .cols = key.k,
                               .period = kPeriod,
                               .seed = static_cast<uint64_t>(trial) << 32},
                              bench.stream);
    check_cuda(cudaGetLastError(), kComparison);
    compute(reference, std::min<int64_t>(rows, kPeriod), nullptr);
    for (size_t i = 0; i < algorithms.size(); ++i) {
      compute(algorithms[i].algorithm, std::min(rows, algorithms[i].rows), counts + i);
    }
  }
  check_cuda(cudaMemcpyAsync(different.data(), counts, static_cast<size_t>(count_bytes),
                             cudaMemcpyDeviceToHost, bench.stream),
             kComparison);
  check_cuda(cudaStreamSynchronize(bench.stream), kComparison);
  std::vector<bool> equal;
  for (const int count : different) equal.push_back(count == 0);
  return equal;
}

}  // namespace pagedinfer
