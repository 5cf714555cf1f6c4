#include "ops/cuda/product_timing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "kernels/check_rows.h"
#include "ops/cuda/device_arena.h"
#include "ops/cuda/device_error.h"
#include "ops/cuda/event_timer.h"
#include "ops/cuda/kernel_arguments.h"

namespace pagedinfer {
namespace {

constexpr int kRounds = 3;    // the first one loads code
constexpr int kProducts = 3;  // in a row, of a round
constexpr const char* kTiming = "to time algorithms";

}  // namespace

ProductTiming::ProductTiming(const ProductBench& bench, double max_ms)
    : bench_(bench), max_ms_(max_ms) {}

std::optional<size_t> ProductTiming::fastest(const ProductKey& key,
                                             const ProductLibrary::Layouts& layouts,
                                             std::span<const void* const> weights, int64_t rows,
                                             std::span<const ProductAlgorithm> algorithms) {
  const int64_t x_bytes =
      align_up(rows * key.x_stride * size_of(key.in), DeviceArena::kStepAlignment);
  char* const x = bench_.memory(x_bytes + rows * key.out_stride * size_of(key.out));
  if (x == nullptr) throw Error("out of memory of the GPU to time algorithms");
  // Zeros would be faster than a model's numbers.
  kernels::launch_fill_rows({.type = type_of(key.in),
                             .out = {x, key.x_stride},
                             .num_rows = rows,
                             .cols = key.k,
                             .period = 64,
                             .seed = 0},
                            bench_.stream);
  check_cuda(cudaGetLastError(), kTiming);
  EventTimer timer(bench_.stream);
  std::vector<double> best(algorithms.size(), std::numeric_limits<double>::infinity());
  std::vector<bool> is_refused(algorithms.size());
  size_t next = 0;
  timer.mark();
  for (int round = 0; round < kRounds; ++round) {
    for (size_t a = 0; a < algorithms.size(); ++a) {
      for (int i = 0; i < kProducts && !is_refused[a]; ++i) {
        const void* const weight = weights[next++ % weights.size()];
        is_refused[a] =
            !bench_.library.try_multiply(layouts, {x, weight, x + x_bytes, rows, bench_.workspace},
                                         algorithms[a], bench_.stream);
      }
      timer.mark();
    }
  }
  // Since the mark before; 0 for the first mark.
  std::vector<double> seconds(1 + kRounds * algorithms.size());
  timer.take(seconds);
  for (size_t i = 0; i + 1 < seconds.size(); ++i) {
    const double trial = seconds[i + 1];
    spent_ms_ += 1e3 * trial;
    if (i < algorithms.size() || is_refused[i % algorithms.size()]) continue;
    double& least = best[i % algorithms.size()];
    least = std::min(least, trial);
  }
  const auto least = std::ranges::min_element(best);
  if (std::isinf(*least)) return std::nullopt;
  return static_cast<size_t>(least - best.begin());
}

}  // namespace pagedinfer
