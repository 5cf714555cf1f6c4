#include <algorithm>
#include <cstring>
#include <vector>

#include "core/check.h"
#include "ops/cpu/int8_layout.h"
#include "ops/cpu/packed_format.h"
#include "ops/cpu/widen_numbers.h"

namespace pagedinfer {
namespace {

static_assert(kInt8Panel % kPackedWeightRows == 0);

int64_t int8_bytes(int64_t rows, int64_t cols) {
  return int8_panels(rows) * int8_panel_bytes(cols);
}

void pack_int8_rows(const Kernels& kernels, const Tensor& rows, int64_t first, char* packed) {
  const int64_t columns = int8_columns(rows.cols);
  std::vector<float> wide(static_cast<size_t>(rows.cols));
  std::vector<int8_t> numbers(static_cast<size_t>(kPackedWeightRows * columns));
  char* const panel = packed + first / kInt8Panel * int8_panel_bytes(rows.cols);
  const int64_t place = first % kInt8Panel;
  auto* const scales = reinterpret_cast<float*>(panel + int8_scales_at(rows.cols)) + place;
  for (int64_t i = 0; i < rows.rows; ++i) {
    widen_numbers(kernels, rows, i, 0, rows.cols, wide.data());
    scales[i] = kernels.to_int8(wide.data(), numbers.data() + i * columns, rows.cols);
  }
  kernels.interleave_int8(numbers.data(), columns, columns,
                          reinterpret_cast<uint8_t*>(panel) + place * kFour);
}

Tensor int8_view(char* packed, int64_t rows, int64_t cols) {
  return {packed, DType::kI8, rows, cols, int8_panel_bytes(cols), Layout::kPanels};
}

void widen_int8_row(const Kernels& kernels, const Tensor& weights, int64_t i, float* y) {
  CHECK(weights.dtype == DType::kI8 && weights.stride == int8_panel_bytes(weights.cols));
  const char* const panel =
      static_cast<const char*>(weights.data) + i / kInt8Panel * weights.stride;
  const int64_t place = i % kInt8Panel;
  for (int64_t first = 0; first < weights.cols; first += kInt8Step) {
    int8_t numbers[kInt8Step];
    for (int64_t column = 0; column < kInt8Step; column += kFour) {
      const char* const four = panel + (first + column) * kInt8Panel + place * kFour;
      uint32_t bits = 0;
      std::memcpy(&bits, four, sizeof bits);
      bits ^= 0x80808080;  // w + 128 as a byte without a sign to w
      std::memcpy(numbers + column, &bits, sizeof bits);
    }
    kernels.from_int8(numbers, y + first, std::min<int64_t>(weights.cols - first, kInt8Step));
  }
  float scale = 0;
  std::memcpy(&scale, panel + int8_scales_at(weights.cols) + place * int64_t{sizeof scale},
              sizeof scale);
  kernels.scale(y, scale, y, weights.cols);
}

}  // namespace

constinit const PackedFormat kInt8Format = {int8_bytes, pack_int8_rows, int8_view, widen_int8_row};

}  // namespace pagedinfer
