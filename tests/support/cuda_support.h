// What the tests of the CUDA backend share. Without a GPU these tests print a message and pass.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "model/spec.h"
#include "ops/cuda/convert.h"
#include "ops/cuda/cuda_ops.h"

namespace pagedinfer {

// True, with a message, if there is no GPU.
inline bool skips_without_gpu() {
  const std::string problem = cuda_problem();
  if (problem.empty()) return false;
  MESSAGE("SKIPPED: no GPU: " << problem);
  return true;
}

// The number of random cases, scaled by the environment variable PAGEDINFER_TEST_SCALE: 0.1 runs a
// tenth of them under a slow tool.
inline int gpu_trials(int trials) {
  const char* const scale = std::getenv("PAGEDINFER_TEST_SCALE");
  return scale == nullptr ? trials : std::max(1, static_cast<int>(std::atof(scale) * trials));
}

// Whether case `number` of a list runs at this scale.
inline bool is_gpu_case(int number) { return number % std::max(1, 10 / gpu_trials(10)) == 0; }

inline constexpr int64_t kMiB = int64_t{1} << 20;

// A backend with room for any tiny model and for steps of 2,048 tokens of it. Room for many weights
// takes long: as much host memory is pinned to upload them, up to 128 MiB.
inline std::unique_ptr<CudaOps> make_gpu(const ModelSpec& spec, CudaOptions options,
                                         int64_t weight_bytes = 8 * kMiB) {
  options.attention = attention_shape(spec);
  std::unique_ptr<CudaOps> ops = make_cuda_ops(options);
  const ExpertsSpec& experts = spec.experts;
  const StepBounds bounds = {.tokens = 2048,
                             .sequences = 256,
                             .widest_input = 4096,
                             .int8_products = true,
                             .experts = {.experts = experts.count,
                                         .per_row = experts.per_token,
                                         .hidden = spec.hidden,
                                         .width = experts.width,
                                         .shared_width = experts.shared_width},
                             .vocab = spec.vocab,
                             .context = 8192,
                             .block_size = 1};
  ops->memory().reserve_weights(weight_bytes);
  ops->memory().reserve_kv(512 * kMiB);
  ops->memory().reserve_steps(bounds, 256 * kMiB + ops->memory().workspace_bytes(bounds));
  return ops;
}

// Fills the keys and values of a cache position with NaN.
inline void poison_position(CudaOps& ops, const KvLayer& layer, int64_t slot) {
  for (const Tensor& t : {layer.k, layer.v, layer.k_scale, layer.v_scale}) {
    if (t.empty()) continue;
    const std::vector<unsigned char> nans(
        static_cast<size_t>(layer.kv_heads * t.cols * size_of(t.dtype)), 0xff);
    // The position's row of every head.
    const Tensor rows = {static_cast<char*>(t.data) + slot * t.stride * size_of(t.dtype), t.dtype,
                         layer.kv_heads, t.cols, layer.num_positions * t.stride};
    ops.write(nans.data(), rows);
  }
}

// A matrix on the device inside a larger one that guards it: no operation may change the bytes
// around it. All of it is NaN at first.
class GuardedMatrix {
 public:
  // `gap` guard columns follow each row; a guard row precedes and follows the matrix.
  GuardedMatrix(CudaOps& ops, DType dtype, int64_t rows, int64_t cols, int64_t gap)
      : ops_(ops), whole_(ops.memory().allocate(dtype, rows + 2, cols + gap)) {
    const std::vector<unsigned char> nans(static_cast<size_t>(whole_.bytes()), 0xff);
    ops.write(nans.data(), whole_);
    view_ = {static_cast<char*>(whole_.data) + whole_.stride * size_of(dtype), dtype, rows, cols,
             whole_.stride};
  }

  Tensor view() const { return view_; }

  void set(const std::vector<float>& values) {
    std::vector<char> bytes(static_cast<size_t>(view_.bytes()));
    convert(values.data(), DType::kF32, bytes.data(), view_.dtype, view_.rows * view_.cols);
    ops_.write(bytes.data(), view_);
  }

  std::vector<float> get() const {
    std::vector<char> bytes(static_cast<size_t>(view_.bytes()));
    std::vector<float> values(static_cast<size_t>(view_.rows * view_.cols));
    ops_.read(view_, bytes.data());
    convert(bytes.data(), view_.dtype, values.data(), DType::kF32, view_.rows * view_.cols);
    return values;
  }

  bool guards_are_whole() const {
    std::vector<unsigned char> bytes(static_cast<size_t>(whole_.bytes()));
    ops_.read(whole_, bytes.data());
    const int64_t size = size_of(whole_.dtype);
    for (int64_t i = 0; i < whole_.bytes(); ++i) {
      const int64_t row = i / size / whole_.stride - 1, column = i / size % whole_.stride;
      const bool inside = row >= 0 && row < view_.rows && column < view_.cols;
      if (!inside && bytes[static_cast<size_t>(i)] != 0xff) return false;
    }
    return true;
  }

 private:
  CudaOps& ops_;
  Tensor whole_, view_;
};

// The values rounded to `dtype`.
inline std::vector<float> rounded_to(DType dtype, std::vector<float> values) {
  std::vector<char> bytes(values.size() * 4);
  const auto count = static_cast<int64_t>(values.size());
  convert(values.data(), DType::kF32, bytes.data(), dtype, count);
  convert(bytes.data(), dtype, values.data(), DType::kF32, count);
  return values;
}

// Checks numbers of about unit size. float32: the error is at most 1e-4 of the largest number.
// 16-bit types: it is at most 1e-2, relative for numbers above 1, and its relative mean at most
// `mean`.
inline void check_close(DType dtype, const std::vector<float>& found,
                        const std::vector<float>& expected, double mean = 1e-3) {
  REQUIRE(found.size() == expected.size());
  double sum = 0, size = 0, largest = 0, worst = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double wanted = static_cast<double>(expected[i]);
    const double error = std::abs(static_cast<double>(found[i]) - wanted);
    sum += error;
    size += std::abs(wanted);
    largest = std::max(largest, std::abs(wanted));
    const double scaled = dtype == DType::kF32 ? error : error / std::max(1.0, std::abs(wanted));
    worst = std::isnan(scaled) ? HUGE_VAL : std::max(worst, scaled);
  }
  if (dtype == DType::kF32) {
    CHECK(worst <= 1e-4 * largest);
  } else {
    CHECK(worst <= 1e-2);
    CHECK(sum <= mean * size);
  }
}

}  // namespace pagedinfer
