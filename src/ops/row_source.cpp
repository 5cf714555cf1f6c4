#include "ops/row_source.h"

#include <algorithm>

#include "core/check.h"
#include "core/float16.h"

namespace pagedinfer {
namespace {

template <class From, class F>
void widen_rows(const Tensor& matrix, int64_t first, int64_t count, const F& widened, float* out) {
  for (int64_t i = 0; i < count; ++i, out += matrix.cols) {
    const From* const from = matrix.row<From>(first + i);
    std::transform(from, from + matrix.cols, out, widened);
  }
}

}  // namespace

float stored_number(const Tensor& x, int64_t row, int64_t column) {
  switch (x.dtype) {
    case DType::kF32: return x.row<float>(row)[column];
    case DType::kBF16: return from_bf16(x.row<uint16_t>(row)[column]);
    case DType::kF16: return from_f16(x.row<uint16_t>(row)[column]);
    case DType::kI32:
    case DType::kI8:
    case DType::kI4: break;
  }
  CHECK(false);
  return 0;
}

RowSource stored_rows(const Tensor& matrix) {
  CHECK(matrix.dtype == DType::kF32 || matrix.dtype == DType::kBF16 || matrix.dtype == DType::kF16);
  return {matrix.rows, matrix.cols, [matrix](int64_t first, int64_t count, float* out) {
            if (matrix.dtype == DType::kF32) {
              widen_rows<float>(
                  matrix, first, count, [](float x) { return x; }, out);
            } else if (matrix.dtype == DType::kBF16) {
              widen_rows<uint16_t>(matrix, first, count, from_bf16, out);
            } else {
              widen_rows<uint16_t>(matrix, first, count, from_f16, out);
            }
          }};
}

}  // namespace pagedinfer
