// The machine's peaks by a backend that takes a known time.
#include <doctest/doctest.h>

#include <algorithm>

#include "ops/cpu/cpu_ops.h"
#include "ops/peaks.h"
#include "tests/support/idle_ops.h"

namespace pagedinfer {
namespace {

// Slower at the first time than afterwards, and unevenly so.
class SteadyOps final : public IdleOps {
 public:
  double now = 0;

  Tensor upload(Tensor host, DType) override { return host; }
  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override {
    return {&now, dtype, rows, cols, cols};
  }
  void copy(Tensor from, Tensor to) override {
    CHECK(from.bytes() == to.bytes());
    now += copies_++ % 3 == 2 ? 0.25 : 1;
  }
  void matmul(Tensor, std::span<const Product>) override { now += products_++ % 2 == 1 ? 0.5 : 2; }

 private:
  int copies_ = 0, products_ = 0;
};

}  // namespace

TEST_CASE("peaks: the fastest of several rounds counts, reads and writes of a copy") {
  SteadyOps ops;
  const DevicePeaks peaks = measure_peaks(
      ops, DType::kBF16, {.copied_bytes = 8 << 20, .rows = 4, .width = 8}, [&] { return ops.now; });
  CHECK(peaks.bytes_per_second == 2 * (8 << 20) / 0.25);
  CHECK(peaks.flops_per_second == 2 * 4 * 8 * 8 / 0.5);
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
