// What a cache holds of rows of keys or values, by docs/numerics.md, one number after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "core/float16.h"
#include "core/tensor.h"

namespace pagedinfer {

// Each number stands for numbers[i] * scales[i / dim].
struct StoredRows {
  std::vector<float> numbers, scales;
};

// REQUIRES: FlushDenormals on the calling thread; dim divides x.size().
inline StoredRows store_rows(std::span<const float> x, int dim, DType type) {
  StoredRows stored = {.numbers = {x.begin(), x.end()},
                       .scales = std::vector<float>(x.size() / static_cast<size_t>(dim), 1.0f)};
  if (type == DType::kBF16) {
    for (float& number : stored.numbers) number = from_bf16(to_bf16(number));
  }
  if (type == DType::kF16) {
    for (float& number : stored.numbers) {
      number = from_f16(to_f16(number));
      if (std::isinf(number)) number = std::numeric_limits<float>::quiet_NaN();
    }
  }
  if (type != DType::kI8) return stored;
  for (size_t row = 0; row < stored.scales.size(); ++row) {
    const std::span<float> numbers =
        std::span(stored.numbers).subspan(row * static_cast<size_t>(dim), static_cast<size_t>(dim));
    float largest = 0;
    bool is_finite = true;
    for (const float number : numbers) {
      largest = std::max(largest, std::abs(number));
      is_finite = is_finite && std::isfinite(number);
    }
    float& scale = stored.scales[row];
    scale = largest / 127;
    if (scale == 0) scale = 1;
    if (!is_finite) scale = std::numeric_limits<float>::quiet_NaN();
    // In the usual rounding mode std::nearbyint() rounds ties to even.
    for (float& number : numbers) number = is_finite ? std::nearbyint(number / scale) : 0;
  }
  return stored;
}

}  // namespace pagedinfer
