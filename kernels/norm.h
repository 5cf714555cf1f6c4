// RMSNorm (Zhang and Sennrich 2019) with the residual sum before it. Bound by memory.
#pragma once

#include "kernels/types.h"

namespace pagedinfer::kernels {

// With `residual`: residual += x first, rounded to its type, and that is what is normalized.
// Every run of `width` elements of a row is normalized, then scaled by weight + offset:
//   out = r / sqrt(mean(r^2) + eps) * (weight + offset)
// A row's bits depend on that row, width and type only. out may be x.
struct RmsNormArgs {
  Type type;
  Matrix x;             // (num_rows, runs * width)
  Matrix residual;      // the same, or data = nullptr
  const float* weight;  // (width)
  float offset, eps;
  Matrix out;  // (num_rows, runs * width)
  int64_t num_rows, runs, width;
};
void launch_rms_norm(const RmsNormArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
