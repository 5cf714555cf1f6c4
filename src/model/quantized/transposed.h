// Matrices of which the file has the columns as rows: GPTQ and AWQ.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/denormals.h"
#include "model/quantized/stored_part.h"
#include "ops/row_source.h"

namespace pagedinfer {

// A matrix whose columns are in groups. Each group has a scale and a zero point for every row:
// value = (code - zero) * scale. `scales` is (groups, rows). code(row, column), zero(group, row)
// and group(column) are small integers.
template <class Code, class Zero, class Group>
RowSource transposed_rows(int64_t rows, int64_t cols, int64_t num_groups, StoredFloats scales,
                          Code code, Zero zero, Group group) {
  // Columns that are computed at a time. Rows of `out` may be a power of two apart, and so share a
  // few lines of the cache; those of a tile do not.
  constexpr int64_t kTileColumns = 64;
  const auto read = [=](int64_t first, int64_t count, float* out) {
    const FlushDenormals flush;
    std::vector<float> scale_of, tile(static_cast<size_t>(count * kTileColumns));
    std::vector<int32_t> zero_of;
    for (int64_t g = 0; g < num_groups; ++g) {
      for (int64_t row = first; row < first + count; ++row) {
        scale_of.push_back(scales[g * rows + row]);
        zero_of.push_back(zero(g, row));
      }
    }
    for (int64_t begin = 0; begin < cols; begin += kTileColumns) {
      const int64_t columns = std::min(kTileColumns, cols - begin);
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t at = group(begin + j) * count;
        const float* const scale = scale_of.data() + at;
        const int32_t* const zeros = zero_of.data() + at;
        for (int64_t i = 0; i < count; ++i) {
          const int32_t number = code(first + i, begin + j) - zeros[i];
          tile[static_cast<size_t>(i * kTileColumns + j)] = static_cast<float>(number) * scale[i];
        }
      }
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(tile.data() + i * kTileColumns, columns, out + i * cols + begin);
      }
    }
  };
  return {rows, cols, read};
}

}  // namespace pagedinfer
