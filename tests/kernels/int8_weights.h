#pragma once

#include <span>
#include <vector>

#include "kernels/int8_panels.h"
#include "tests/support/ops_support.h"
#include "tests/support/product_reference.h"
#include "tests/support/stored_rows.h"

namespace pagedinfer::kernels {

// Weights as kernels read them, followed by memory that cannot be read.
class Int8Weights {
 public:
  Int8Weights(std::span<const float> w, int cols)
      : cols_(cols),
        rows_(std::ssize(w) / cols),
        bytes_(static_cast<size_t>(int8_panels(rows_) * int8_weight_panel_bytes(cols))) {
    const FlushDenormals guard;
    stored_ = store_rows(w, cols, DType::kI8);
    for (int64_t row = 0; row < rows_; ++row) {
      char* const panel = bytes_.data() + row / kInt8Rows * int8_weight_panel_bytes(cols);
      for (int column = 0; column < cols; ++column) {
        const float number = stored_.numbers[static_cast<size_t>(row * cols + column)];
        panel[int8_offset(row, column)] = static_cast<char>(static_cast<int>(number));
      }
      reinterpret_cast<float*>(panel + int8_numbers_bytes(cols))[row % kInt8Rows] =
          stored_.scales[static_cast<size_t>(row)];
    }
  }
  const void* data() const { return bytes_.data(); }
  const StoredRows& stored() const { return stored_; }

 private:
  int cols_;
  int64_t rows_;
  GuardedBytes bytes_;
  StoredRows stored_ = {};
};

}  // namespace pagedinfer::kernels
