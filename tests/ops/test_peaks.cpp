// Measuring peaks on a backend whose calls take known times.
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/peaks.h"

namespace pagedinfer {
namespace {

// Returns given times, one for each mark: the seconds since the mark before.
class Schedule {
 public:
  explicit Schedule(std::vector<double> seconds) : seconds_(std::move(seconds)) {}
  double next() { return now_ += seconds_.at(num_marks_++); }
  bool is_over() const { return num_marks_ == seconds_.size(); }

 private:
  std::vector<double> seconds_;
  size_t num_marks_ = 0;
  double now_ = 0;
};

}  // namespace

TEST_CASE("peaks: the fastest of several rounds counts, reads and writes of a copy") {
  const auto ops = make_cpu_ops({});
  // A round has a mark before the work and one after it. The first of the three copies is the
  // fastest.
  Schedule clock({9, 0.25, 9, 1, 9, 1, 9, 2, 9, 0.5, 9, 2});
  const DevicePeaks peaks =
      measure_peaks(*ops, DType::kBF16, {.copied_bytes = 8 << 20, .rows = 4, .width = 8},
                    [&] { return clock.next(); });
  CHECK(clock.is_over());
  CHECK(peaks.bytes_per_second == 2 * (8 << 20) / 0.25);
  CHECK(peaks.flops_per_second == 2 * 4 * 8 * 8 / 0.5);
}

TEST_CASE("peaks: products in int8 have a rate of their own") {
  const auto ops = make_cpu_ops({});
  Schedule clock({9, 0.25, 9, 1, 9, 1, 9, 2, 9, 0.5, 9, 2, 9, 1, 9, 0.125, 9, 1});
  const DevicePeaks peaks = measure_peaks(
      *ops, DType::kBF16, {.copied_bytes = 8 << 20, .rows = 4, .width = 8},
      [&] { return clock.next(); }, Quantization::kInt8);
  CHECK(clock.is_over());
  CHECK(peaks.flops_per_second == 2 * 4 * 8 * 8 / 0.5);
  CHECK(peaks.int8_flops_per_second == 2 * 4 * 8 * 8 / 0.125);
}

TEST_CASE("peaks: a backend copies and multiplies") {
  const auto ops = make_cpu_ops({.isa = CpuIsa::kPortable, .num_threads = 2});
  double now = 0;
  const DevicePeaks peaks =
      measure_peaks(*ops, DType::kBF16, {.copied_bytes = 8 << 20, .rows = 16, .width = 64},
                    [&] { return now += 1; });
  CHECK(peaks.bytes_per_second == 2 * (8 << 20));
  CHECK(peaks.flops_per_second == 2 * 16 * 64 * 64);
}

TEST_CASE("ops: a copy is what was copied, on any number of threads") {
  for (const int threads : {1, 3}) {
    const auto ops = make_cpu_ops({.isa = CpuIsa::kPortable, .num_threads = threads});
    const Tensor from = ops->scratch(DType::kF32, 7, 50000),
                 to = ops->scratch(DType::kF32, 7, 50000);
    for (int64_t i = 0; i < 7 * 50000; ++i) from.row<float>(0)[i] = static_cast<float>(i);
    std::fill_n(to.row<float>(0), 7 * 50000, -1.0f);
    ops->copy(from, to);
    CHECK(std::equal(from.row<float>(0), from.row<float>(7), to.row<float>(0)));
  }
}

}  // namespace pagedinfer
