#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "core/tensor.h"

namespace pagedinfer {

// A matrix whose rows are computed when they are read, such as one of a quantized checkpoint.
struct RowSource {
  int64_t rows = 0, cols = 0;
  // Writes `count` rows from row `first` on as float32, one after another. Several threads may call
  // it at once. It throws nothing.
  std::function<void(int64_t first, int64_t count, float* out)> read = {};
};

// Rows [first, first + rows) of a matrix. REQUIRES: it has them.
inline RowSource part_of(RowSource source, int64_t first, int64_t rows) {
  const int64_t cols = source.cols;
  return {rows, cols,
          [first, read = std::move(source.read)](int64_t begin, int64_t count, float* out) {
            read(first + begin, count, out);
          }};
}

// A number as the checkpoint has it. REQUIRES: x is float32, bfloat16 or float16.
float stored_number(const Tensor& x, int64_t row, int64_t column);

// A matrix as the checkpoint has it. REQUIRES: it has one of these types, and outlives the result.
RowSource stored_rows(const Tensor& matrix);

}  // namespace pagedinfer
