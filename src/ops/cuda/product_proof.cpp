#include "ops/cuda/product_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "kernels/check_rows.h"
#include "ops/cuda/device_arena.h"
#include "ops/cuda/device_error.h"
#include "ops/cuda/kernel_type.h"

namespace pagedinfer {
namespace {

constexpr int kTrials = 3;
// Rows of random numbers that differ; the others repeat them.
constexpr int kPeriod = 64;
int64_t aligned(int64_t bytes) { return align_up(bytes, DeviceArena::kStepAlignment); }
constexpr const char* kComparison = "a comparison of algorithms";

}  // namespace

void compare_bits(const ProductBench& bench, const ProductKey& key,
                  const ProductLibrary::Layouts& layouts, const void* weight,
                  const ProductAlgorithm& reference, std::map<ProvenAlgorithm, bool>& are_equal) {
  int64_t max_rows = 1;
  for (const auto& [trial, is_equal] : are_equal) max_rows = std::max(max_rows, trial.rows);
  const int64_t x_bytes = aligned(max_rows * key.x_stride * size_of(key.in));
  const int64_t out_bytes = aligned(max_rows * key.out_stride * size_of(key.out));
  const int64_t hash_bytes = aligned(kPeriod * int64_t{sizeof(uint64_t)});
  const int64_t count_bytes = std::ssize(are_equal) * int64_t{sizeof(int)};
  char* const memory = bench.memory(x_bytes + out_bytes + hash_bytes + count_bytes);
  const kernels::Matrix x = {memory, key.x_stride}, out = {memory + x_bytes, key.out_stride};
  auto* const hashes = reinterpret_cast<uint64_t*>(memory + x_bytes + out_bytes);
  auto* const counts = reinterpret_cast<int*>(memory + x_bytes + out_bytes + hash_bytes);
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
    kernels::launch_fill_rows({.type = type_of(key.in),
                               .out = x,
                               .num_rows = rows,
                               .cols = key.k,
                               .period = kPeriod,
                               .seed = static_cast<uint64_t>(trial) << 32},
                              bench.stream);
    check_cuda(cudaGetLastError(), kComparison);
    if (!compute(reference, std::min<int64_t>(rows, kPeriod), nullptr)) {
      throw Error(
          fmt::format("cuBLAS refuses an algorithm that it has proposed for a product of {} "
                      "by {}",
                      key.k, key.n));
    }
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
}

}  // namespace pagedinfer
