#include "ops/cpu/widen_numbers.h"

#include <algorithm>

#include "core/check.h"

namespace pagedinfer {

void widen_numbers(const Kernels& kernels, const Tensor& x, int64_t row, int64_t first, int64_t n,
                   float* y) {
  switch (x.dtype) {
    case DType::kF32: std::copy_n(x.row<float>(row) + first, n, y); return;
    case DType::kBF16: return kernels.from_bf16(x.row<bf16>(row) + first, y, n);
    case DType::kF16: return kernels.from_f16(x.row<f16>(row) + first, y, n);
    case DType::kI32:
    case DType::kI8: break;
  }
  CHECK(false);
}

}  // namespace pagedinfer
