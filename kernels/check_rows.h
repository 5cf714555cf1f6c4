// Compares products computed by different algorithms bit by bit. Bound by memory.
#pragma once

#include "kernels/types.h"

namespace pagedinfer::kernels {

// Fills a matrix with pseudorandom numbers in [-1, 1) times `factor`. Rows whose numbers are equal
// modulo `period` are equal.
struct FillRowsArgs {
  Type type;
  Matrix out;  // (num_rows, cols)
  int64_t num_rows, cols;
  int period;
  uint64_t seed;
  float factor = 1.0f;
};
void launch_fill_rows(const FillRowsArgs& args, cudaStream_t stream);

// Hashes the bits of each row. Without `num_different` the hashes are stored; with it, it grows by
// the number of rows whose hash differs from that of row i % period.
struct CheckRowsArgs {
  Type type;
  Matrix x;  // (num_rows, cols)
  int64_t num_rows, cols;
  uint64_t* hashes;  // (period)
  int period;
  int* num_different;
};
// REQUIRES: without num_different num_rows <= period.
void launch_check_rows(const CheckRowsArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
