#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/check.h"
#include "ops/cpu/bf16_layout.h"
#include "ops/cpu/packed_format.h"
#include "ops/cpu/widen_numbers.h"

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
  for (int64_t column = 0; column < rows.cols; column += kBf16Step) {
    const int64_t columns = std::min<int64_t>(kBf16Step, rows.cols - column);
    if (columns < kBf16Step) std::fill(std::begin(numbers), std::end(numbers), bf16{});
    for (int64_t i = 0; i < rows.rows; ++i) {
      round_numbers(kernels, rows, i, column, columns, numbers + i * kBf16Step);
    }
    kernels.interleave_bf16(numbers, to);
    to += kBf16Step * kBf16Panel;
  }
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

}  // namespace

constinit const PackedFormat kBf16Format = {bf16_bytes, pack_bf16_rows, bf16_view, widen_bf16_row};

}  // namespace pagedinfer
