// RMSNorm (Zhang and Sennrich 2019). Before it, x may be normalized and added to the residual.
// Bound by memory.
#pragma once

#include "kernels/types.h"

namespace pagedinfer::kernels {

// Normalizes every run of `width` elements of a row and scales it by weight + offset:
//   out = r / sqrt(mean(r^2) + eps) * (weight + offset)
// where r is x or, with `residual`, the new residual: residual += x, rounded to its type. With
// `x_weight` the normalized x is added instead: x / sqrt(mean(x^2) + eps) * (x_weight + offset),
// rounded too. A row's bits depend only on that row, the width and the type. `out` may be `x`.
struct RmsNormArgs {
  Type type;
  Matrix x;                         // (num_rows, runs * width)
  Matrix residual;                  // (num_rows, runs * width), or data = nullptr: none
  const float* weight;              // (width)
  const float* x_weight = nullptr;  // (width), or nullptr. REQUIRES: a residual
  float offset, eps;
  Matrix out;  // (num_rows, runs * width)
  int64_t num_rows, runs, width;
};
void launch_rms_norm(const RmsNormArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
