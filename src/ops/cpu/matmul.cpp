// Ops::matmul on the CPU.
#include <algorithm>
#include <vector>

#include "core/check.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/denormals.h"

namespace pagedinfer {

void CpuOps::matmul(Tensor x, std::span<const Product> products) {
  const bool rounded = options_.compute == DType::kBF16;
  const int rows = static_cast<int>(x.rows), k = static_cast<int>(x.cols);
  CHECK(x.stride == x.cols);
  if (rounded) {
    packed_.resize(static_cast<size_t>(rows) * ((k + 127) / 128 * 128));
    const FlushDenormals guard;
    kernels_.round_rows(x.row<float>(0), rows, k, packed_.data());
  }
  constexpr int kTaskOutputs = 64;
  for (const Product& product : products) {
    const Tensor &weight = product.weight, &out = product.out;
    const int n = static_cast<int>(weight.rows);
    CHECK(weight.cols == k && weight.stride == k && out.rows == rows && out.cols == n);
    CHECK(out.stride == n && (!rounded || weight.dtype == DType::kBF16));
    pool_.parallel_for((n + kTaskOutputs - 1) / kTaskOutputs, [&](int task, int) {
      const int first = task * kTaskOutputs, last = std::min(n, first + kTaskOutputs);
      const MatmulArgs args = {rows, k, n, first, last, out.row<float>(0)};
      if (rounded) {
        kernels_.matmul_bf16(args, packed_.data(), weight.row<bf16>(0));
      } else if (weight.dtype == DType::kF32) {
        kernels_.matmul_float_float(args, x.row<float>(0), weight.row<float>(0));
      } else if (weight.dtype == DType::kBF16) {
        kernels_.matmul_float_bf16(args, x.row<float>(0), weight.row<bf16>(0));
      } else {
        CHECK(weight.dtype == DType::kF16);
        kernels_.matmul_float_f16(args, x.row<float>(0), weight.row<f16>(0));
      }
    });
  }
}

}  // namespace pagedinfer
