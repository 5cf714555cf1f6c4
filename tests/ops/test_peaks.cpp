// Measuring peaks on a backend whose calls take known times.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/cpu_peaks.h"
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

TEST_CASE("peaks: a CPU's are of all its threads at once, and of 256 MiB that are read") {
  for (const CpuIsa isa : available_isas()) {
    CAPTURE(name_of(isa));
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      double now = 0;
      const auto peaks = [&](int threads) {
        return measure_cpu_peaks({isa, threads, compute}, Quantization::kInt8,
                                 [&] { return now += 1; });
      };
      const DevicePeaks one = peaks(1), three = peaks(3);
      CHECK(one.bytes_per_second == 256 << 20);
      CHECK(three.bytes_per_second == doctest::Approx(256 << 20));
      CHECK(one.flops_per_second > 0);
      CHECK(three.flops_per_second == 3 * one.flops_per_second);
      CHECK(three.int8_flops_per_second == 3 * one.int8_flops_per_second);
      CHECK(one.int8_flops_per_second >= one.flops_per_second);
    }
  }
  const auto clock = [now = 0.0]() mutable { return now += 1; };
  CHECK(measure_cpu_peaks({}, Quantization::kNone, clock).int8_flops_per_second == 0);
  for (const Quantization codes : {Quantization::kCodes, Quantization::kInt4}) {
    CHECK(measure_cpu_peaks({}, codes, clock).int8_flops_per_second > 0);
  }
}

TEST_CASE("peaks: no product of a CPU is faster") {
  constexpr int64_t kRows = 64, kWidth = 256;  // in the caches
  const std::function<double()> clock = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  for (const CpuIsa isa : available_isas()) {
    CAPTURE(name_of(isa));
    const CpuOptions options = {.isa = isa, .num_threads = 1, .compute = DType::kBF16};
    const DevicePeaks peaks = measure_cpu_peaks(options, Quantization::kInt8, clock);
    for (const DType type : {DType::kBF16, DType::kI8}) {
      const auto ops = make_cpu_ops(options);
      std::vector<char> numbers = random_numbers(DType::kBF16, kWidth * kWidth);
      const Tensor weights =
          ops->memory().upload_matrix({numbers.data(), DType::kBF16, kWidth, kWidth, kWidth}, type);
      const Tensor x = ops->steps().scratch(DType::kF32, kRows, kWidth),
                   y = ops->steps().scratch(DType::kF32, kRows, kWidth);
      std::fill_n(x.row<float>(0), kRows * kWidth, 1.0f);
      ClockTimer timer(clock);
      const Product product = {weights, y};
      const double seconds = fastest(timer, [&] { ops->arithmetic().matmul(x, {&product, 1}); });
      const double rate = 2.0 * kRows * kWidth * kWidth / seconds;
      CHECK(rate <
            1.1 * (type == DType::kI8 ? peaks.int8_flops_per_second : peaks.flops_per_second));
    }
  }
}

TEST_CASE("ops: a copy is what was copied, on any number of threads") {
  for (const int threads : {1, 3}) {
    const auto ops = make_cpu_ops({.isa = CpuIsa::kPortable, .num_threads = threads});
    const Tensor from = ops->steps().scratch(DType::kF32, 7, 50000),
                 to = ops->steps().scratch(DType::kF32, 7, 50000);
    for (int64_t i = 0; i < 7 * 50000; ++i) from.row<float>(0)[i] = static_cast<float>(i);
    std::fill_n(to.row<float>(0), 7 * 50000, -1.0f);
    ops->timing().copy(from, to);
    CHECK(std::equal(from.row<float>(0), from.row<float>(7), to.row<float>(0)));
  }
}

}  // namespace pagedinfer
