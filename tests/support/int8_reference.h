// Products in int8 as plain loops: the definition of docs/numerics.md.
// REQUIRES: the calling thread flushes denormals to zero.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/stored_rows.h"

namespace pagedinfer {

constexpr int kReferenceGroup = 256;  // columns of the input that share a scale

// y (rows, n) = x (rows, k) * w^T, w (n, k).
inline std::vector<float> int8_product(std::span<const float> x, std::span<const float> w, int k) {
  const StoredRows weights = store_rows(w, k, DType::kI8);
  const size_t columns = static_cast<size_t>(k), rows = x.size() / columns, n = w.size() / columns;
  std::vector<float> y(rows * n, 0.0f);
  for (size_t m = 0; m < rows; ++m) {
    for (size_t first = 0; first < columns; first += kReferenceGroup) {
      const size_t count = std::min<size_t>(columns - first, kReferenceGroup);
      const StoredRows group =
          store_rows(x.subspan(m * columns + first, count), static_cast<int>(count), DType::kI8);
      for (size_t j = 0; j < n; ++j) {
        int64_t sum = 0;
        for (size_t i = 0; i < count; ++i) {
          sum += static_cast<int64_t>(group.numbers[i]) *
                 static_cast<int64_t>(weights.numbers[j * columns + first + i]);
        }
        float& total = y[m * n + j];
        total = std::fma(static_cast<float>(sum), group.scales[0], total);
      }
    }
    for (size_t j = 0; j < n; ++j) y[m * n + j] *= weights.scales[j];
  }
  return y;
}

}  // namespace pagedinfer
