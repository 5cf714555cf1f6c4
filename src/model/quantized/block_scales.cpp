#include "model/quantized/block_scales.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/denormals.h"

namespace pagedinfer {
namespace {

struct Block {
  float zero, scale;
  float value(float code) const { return (code - zero) * scale; }
};

Block block_at(const BlockScales& blocks, int64_t row, int64_t j) {
  const int64_t i = row / blocks.block_rows;
  return {blocks.zero ? blocks.zero(i, j) : 0.0f, blocks.scales[i * blocks.num_across + j]};
}

void scale_row(const BlockScales& blocks, int64_t row, int64_t cols, float* numbers) {
  if (blocks.block_of_column.empty()) {
    for (int64_t begin = 0, j = 0; begin < cols; begin += blocks.block_cols, ++j) {
      const Block block = block_at(blocks, row, j);
      const int64_t end = std::min(cols, begin + blocks.block_cols);
      for (int64_t column = begin; column < end; ++column) {
        numbers[column] = block.value(numbers[column]);
      }
    }
    return;
  }
  std::vector<Block> of_row;
  for (int64_t j = 0; j < blocks.num_across; ++j) of_row.push_back(block_at(blocks, row, j));
  for (int64_t column = 0; column < cols; ++column) {
    const auto j = static_cast<size_t>(blocks.block_of_column[static_cast<size_t>(column)]);
    numbers[column] = of_row[j].value(numbers[column]);
  }
}

}  // namespace

RowSource scaled_rows(int64_t rows, int64_t cols, ReadCodes read_codes, BlockScales blocks) {
  return {rows, cols,
          [cols, read_codes = std::move(read_codes), blocks = std::move(blocks)](
              int64_t first, int64_t count, float* out) {
            const FlushDenormals flush;
            for (int64_t row = first; row < first + count; ++row, out += cols) {
              read_codes(row, out);
              scale_row(blocks, row, cols, out);
            }
          }};
}

}  // namespace pagedinfer
