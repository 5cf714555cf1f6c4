#include "ops/peaks.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/float16.h"
#include "ops/op_work.h"
#include "ops/timing.h"

namespace pagedinfer {
namespace {

constexpr double kSeconds = 0.1;  // for copies and for products each
constexpr int kRounds = 3;        // at least

}  // namespace

std::vector<char> random_numbers(DType dtype, int64_t count) {
  std::vector<char> bytes(static_cast<size_t>(count * size_of(dtype)));
  uint64_t random = 1;
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(size_of(dtype))) {
    random = random * 6364136223846793005 + 1442695040888963407;
    const float value = static_cast<float>(random >> 40) * 0x1p-23f - 1.0f;
    const auto store = [&](auto stored) {
      std::copy_n(reinterpret_cast<const char*>(&stored), sizeof stored, bytes.begin() + at);
    };
    if (dtype == DType::kF32) {
      store(value);
    } else if (dtype == DType::kI8) {
      store(static_cast<int8_t>(random >> 56));
    } else {
      store(dtype == DType::kBF16 ? to_bf16(value) : to_f16(value));
    }
  }
  return bytes;
}

double fastest(DeviceTimer& timer, const std::function<void()>& work) {
  work();  // the first call initializes
  double best = std::numeric_limits<double>::infinity(), spent = 0;
  for (int round = 0; round < kRounds || spent < kSeconds; ++round) {
    double seconds[2];
    timer.mark();
    work();
    timer.mark();
    timer.take(seconds);
    best = std::min(best, seconds[1]);
    spent += seconds[1];
  }
  return best;
}

DevicePeaks measure_peaks(Ops& ops, DType compute, const PeakProbe& probe,
                          const std::function<double()>& clock, Quantization quantize) {
  DeviceMemory& memory = ops.memory();
  const DType activation = ops.steps().activation_type();
  const DType stored = memory.matrix_type(compute, compute);
  std::vector<char> x_bytes = random_numbers(activation, probe.rows * probe.width);
  std::vector<char> weight_bytes = random_numbers(stored, probe.width * probe.width);
  const Tensor host_x = {x_bytes.data(), activation, probe.rows, probe.width, probe.width};
  const Tensor host_weight = {weight_bytes.data(), stored, probe.width, probe.width, probe.width};

  const bool has_int8 = multiplies_int8(quantize);
  const StepBounds bounds = {.tokens = probe.rows,
                             .sequences = 1,
                             .widest_input = probe.width,
                             .int8_products = has_int8,
                             .vocab = 1,
                             .context = 1};
  memory.reserve_weights(memory.uploaded_bytes(host_x, activation) +
                         memory.matrix_bytes(host_weight, stored) +
                         (has_int8 ? memory.matrix_bytes(host_weight, DType::kI8) : 0));
  memory.reserve_steps(bounds,
                       2 * probe.copied_bytes + host_x.bytes() + memory.workspace_bytes(bounds));
  const Tensor x = memory.upload(host_x, activation);
  const Product product = {.weight = memory.upload_matrix(host_weight, stored),
                           .out = ops.steps().scratch(activation, probe.rows, probe.width)};
  constexpr int64_t kRow = 1 << 20;  // floats
  const auto large = [&] {
    return ops.steps().scratch(DType::kF32, probe.copied_bytes / (kRow * int64_t{sizeof(float)}),
                               kRow);
  };
  const Tensor from = large(), to = large();
  // Until memory is written, all its pages are one page, which a cache holds.
  ops.timing().copy(to, from);

  const std::unique_ptr<DeviceTimer> timer = ops.timing().make_timer(clock);
  const double copy = fastest(*timer, [&] { ops.timing().copy(from, to); });
  const double multiply = fastest(*timer, [&] { ops.arithmetic().matmul(x, {&product, 1}); });
  const double flops = matmul_work(x, {&product, 1}).flops;
  DevicePeaks peaks = {.bytes_per_second = 2.0 * static_cast<double>(from.bytes()) / copy,
                       .flops_per_second = flops / multiply};
  if (has_int8) {
    const Product int8 = {.weight = memory.upload_matrix(host_weight, DType::kI8),
                          .out = product.out};
    peaks.int8_flops_per_second = flops / fastest(*timer, [&] {
                                    ops.arithmetic().matmul(x, {&int8, 1});
                                  });
  }
  return peaks;
}

}  // namespace pagedinfer
