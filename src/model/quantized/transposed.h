// Matrices that the file stores transposed, columns as rows: GPTQ and AWQ.
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
// value = (code - zero) * scale. `scales` is (groups, rows). read_codes(column, first, count,
// codes) writes the codes of rows [first, first + count) of a column; zero(group, row) and
// group(column) are small integers.
template <class ReadCodes, class Zero, class Group>
RowSource transposed_rows(int64_t rows, int64_t cols, int64_t num_groups, StoredFloats scales,
                          ReadCodes read_codes, Zero zero, Group group) {
  constexpr int64_t kTileColumns = 64;  // that are computed before they are written as rows
  const auto read = [=](int64_t first, int64_t count, float* out) {
    const FlushDenormals flush;
    std::vector<float> scale_of, tile(static_cast<size_t>(kTileColumns * count));
    std::vector<int32_t> zero_of, codes(static_cast<size_t>(count));
    for (int64_t g = 0; g < num_groups; ++g) {
      for (int64_t row = first; row < first + count; ++row) {
        scale_of.push_back(scales[g * rows + row]);
        zero_of.push_back(zero(g, row));
      }
    }
    for (int64_t begin = 0; begin < cols; begin += kTileColumns) {
      const int64_t columns = std::min(kTileColumns, cols - begin);
      for (int64_t j = 0; j < columns; ++j) {
        read_codes(begin + j, first, count, codes.data());
        const int64_t at = group(begin + j) * count;
        const float* const scale = scale_of.data() + at;
        const int32_t *const zeros = zero_of.data() + at, *const code = codes.data();
        float* const values = tile.data() + j * count;
        for (int64_t i = 0; i < count; ++i) {
          values[i] = static_cast<float>(code[i] - zeros[i]) * scale[i];
        }
      }
      for (int64_t i = 0; i < count; ++i) {
        float* const row = out + i * cols + begin;
        const float* const values = tile.data() + i;
        for (int64_t j = 0; j < columns; ++j) row[j] = values[j * count];
      }
    }
  };
  return {rows, cols, read};
}

}  // namespace pagedinfer
