#include "ops/cpu/packed_format.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/check.h"
#include "ops/cpu/bf16_layout.h"
#include "ops/cpu/int8_layout.h"

namespace pagedinfer {
namespace {

static_assert(kBf16Panel % kPackedWeightRows == 0);

// Columns [first, first + n) of a row, rounded to bfloat16.
void round_numbers(const Kernels& kernels, const Tensor& x, int64_t row, int64_t first, int64_t n,
                   bf16* y) {
  if (x.dtype == DType::kBF16) {
    std::copy_n(x.row<bf16>(row) + first, n, y);
    return;
  }
  std::array<float, kBf16Step> wide;
  widen_numbers(kernels, x, row, first, n, wide.data());
  kernels.to_bf16(wide.data(), y, n);
}

int64_t bf16_bytes(int64_t rows, int64_t cols) {
  return bf16_panels(rows) * bf16_panel_size(cols) * int64_t{sizeof(bf16)};
}

void pack_bf16_rows(const Kernels& kernels, const Tensor& rows, int64_t first, char* packed) {
  bf16* to = reinterpret_cast<bf16*>(packed) + first / kBf16Panel * bf16_panel_size(rows.cols) +
             first % kBf16Panel * 2;
  bf16 numbers[kPackedWeightRows * kBf16Step] = {};
  const bool is_whole = rows.dtype == DType::kBF16 && rows.rows == kPackedWeightRows;
  for (int64_t column = 0; column < rows.cols; column += kBf16Step, to += kBf16Step * kBf16Panel) {
    const int64_t columns = std::min<int64_t>(kBf16Step, rows.cols - column);
    if (is_whole && columns == kBf16Step) {
      kernels.interleave_bf16(rows.row<bf16>(0) + column, rows.stride, to);
      continue;
    }
    if (columns < kBf16Step) std::fill(std::begin(numbers), std::end(numbers), bf16{});
    for (int64_t i = 0; i < rows.rows; ++i) {
      round_numbers(kernels, rows, i, column, columns, numbers + i * kBf16Step);
    }
    kernels.interleave_bf16(numbers, kBf16Step, to);
  }
  _mm_sfence();
}

Tensor bf16_view(char* packed, int64_t rows, int64_t cols) {
  return {packed, DType::kBF16, rows, cols, bf16_panel_size(cols), Layout::kPanels};
}

void widen_bf16_row(const Kernels& kernels, const Tensor& weights, int64_t i, float* y) {
  CHECK(weights.dtype == DType::kBF16 && weights.layout == Layout::kPanels);
  const bf16* from = weights.row<bf16>(i / kBf16Panel) + i % kBf16Panel * 2;
  for (int64_t first = 0; first < weights.cols; first += kBf16Step) {
    bf16 numbers[kBf16Step];
    for (int64_t column = 0; column < kBf16Step; column += 2, from += 2 * kBf16Panel) {
      std::copy_n(from, 2, numbers + column);
    }
    kernels.from_bf16(numbers, y + first, std::min<int64_t>(weights.cols - first, kBf16Step));
  }
}

static_assert(kInt8Panel % kPackedWeightRows == 0);

int64_t int8_bytes(int64_t rows, int64_t cols) {
  return int8_panels(rows) * int8_panel_bytes(cols);
}

template <uint8_t kZero>
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
  kernels.interleave_int8(numbers.data(), columns, columns, kZero,
                          reinterpret_cast<uint8_t*>(panel) + place * kFour);
}

Tensor int8_view(char* packed, int64_t rows, int64_t cols) {
  return {packed, DType::kI8, rows, cols, int8_panel_bytes(cols), Layout::kPanels};
}

template <uint8_t kZero>
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
      bits ^= kZero * 0x01010101u;  // w + 128 as a byte without a sign to w
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

void widen_numbers(const Kernels& kernels, const Tensor& x, int64_t row, int64_t first, int64_t n,
                   float* y) {
  switch (x.dtype) {
    case DType::kF32: std::copy_n(x.row<float>(row) + first, n, y); return;
    case DType::kBF16: return kernels.from_bf16(x.row<bf16>(row) + first, y, n);
    case DType::kF16: return kernels.from_f16(x.row<f16>(row) + first, y, n);
    case DType::kI32:
    case DType::kI8:
    case DType::kI4: break;
  }
  CHECK(false);
}

constinit const PackedFormat kBf16Format = {bf16_bytes, pack_bf16_rows, bf16_view, widen_bf16_row};

constinit const PackedFormat kInt8Format = {int8_bytes, pack_int8_rows<kInt8Zero>, int8_view,
                                            widen_int8_row<kInt8Zero>};
constinit const PackedFormat kSignedInt8Format = {int8_bytes, pack_int8_rows<0>, int8_view,
                                                  widen_int8_row<0>};

}  // namespace pagedinfer
