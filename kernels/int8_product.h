// Products of rows by weights in int8, as docs/numerics.md defines them: before the result is
// rounded to the type of `out`, its bits are the CPU backend's. With few rows bound by reading the
// weights once, with many by mma.sync.
#pragma once

#include "kernels/types.h"

namespace pagedinfer::kernels {

// out = x * weights^T, where x has become int8. REQUIRES: input and weights are aligned to 16
// bytes.
struct Int8ProductArgs {
  Type type;            // of `out`
  const void* input;    // (num_rows, cols), int8_panels.h
  const void* weights;  // (outputs, cols), int8_panels.h
  Matrix out;           // (num_rows, outputs)
  int64_t num_rows, cols, outputs;
  int multiprocessors;  // of the device; the bits do not depend on it
};
void launch_int8_product(const Int8ProductArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
