// Matrices that the file stores transposed, columns as rows: GPTQ and AWQ.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/denormals.h"
#include "model/quantized/stored_codes.h"
#include "model/quantized/stored_part.h"
#include "ops/row_source.h"

namespace pagedinfer {

// A matrix whose columns are in groups. Each group has a scale and a zero point for every row:
// value = (code - zero) * scale.
template <class ReadCodes, class Zero>
struct Transposed {
  int64_t rows = 0, cols = 0;
  int64_t size = 0, num_groups = 0;  // columns of a group
  StoredFloats scales = {};          // (groups, rows)
  // read_codes(column, first, count, codes) writes the codes of rows [first, first + count) of a
  // column; zero(group, row) is a small integer.
  ReadCodes read_codes;
  Zero zero;
  const int32_t* group_of_column = nullptr;  // null: column / size

  int64_t group(int64_t column) const {
    return group_of_column != nullptr ? int64_t{group_of_column[column]} : column / size;
  }
};

template <class ReadCodes, class Zero>
RowSource rows_of(const Transposed<ReadCodes, Zero>& of) {
  const auto read = [of](int64_t first, int64_t count, float* out) {
    const FlushDenormals flush;
    constexpr int64_t kTileColumns = 64;  // that are computed before they are written as rows
    const int64_t rows = of.rows, cols = of.cols;
    std::vector<float> scale_of, tile(static_cast<size_t>(kTileColumns * count));
    std::vector<int32_t> zero_of, codes(static_cast<size_t>(count));
    for (int64_t g = 0; g < of.num_groups; ++g) {
      for (int64_t row = first; row < first + count; ++row) {
        scale_of.push_back(of.scales[g * rows + row]);
        zero_of.push_back(of.zero(g, row));
      }
    }
    for (int64_t begin = 0; begin < cols; begin += kTileColumns) {
      const int64_t columns = std::min(kTileColumns, cols - begin);
      for (int64_t j = 0; j < columns; ++j) {
        of.read_codes(begin + j, first, count, codes.data());
        const int64_t at = of.group(begin + j) * count;
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
  return {of.rows, of.cols, read};
}

// The same as codes of 4 bits.
template <class ReadCodes, class Zero>
std::optional<CodeSource> codes_of(const Transposed<ReadCodes, Zero>& of) {
  std::span<const int32_t> groups;
  if (of.group_of_column != nullptr) groups = {of.group_of_column, static_cast<size_t>(of.cols)};
  const auto source = codes_in_groups(of.rows, of.cols, of.size, of.scales.type(), groups);
  if (!source) return std::nullopt;
  return with_codes(
      *source,
      [of](int64_t first, int64_t count, uint8_t* codes) {
        std::vector<int32_t> column(static_cast<size_t>(count));
        for (int64_t c = 0; c < of.cols; ++c) {
          of.read_codes(c, first, count, column.data());
          for (int64_t i = 0; i < count; ++i) {
            codes[i * of.cols + c] = static_cast<uint8_t>(column[static_cast<size_t>(i)]);
          }
        }
      },
      [of](int64_t group, int64_t row) { return of.scales[group * of.rows + row]; }, of.zero);
}

}  // namespace pagedinfer
