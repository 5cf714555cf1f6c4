// Matrices whose rows are stored as rows: fp8 and compressed-tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "model/quantized/stored_part.h"
#include "ops/row_source.h"

namespace pagedinfer {

constexpr int64_t kMaxBlock = 1 << 24;  // rows or columns

// The blocks of a matrix, those at its edges cut off there. Each has a scale and may have a zero
// point: value = (code - zero) * scale.
struct BlockScales {
  int64_t block_rows = 1, block_cols = 1;
  int64_t num_across = 1;    // blocks beside each other
  StoredFloats scales = {};  // row by row of blocks
  // The zero point of block (i, j); empty: they are 0.
  std::function<float(int64_t i, int64_t j)> zero = {};
  // The block of each column; empty: column / block_cols.
  std::span<const int32_t> block_of_column = {};
};

// Writes the codes of a row.
using ReadCodes = std::function<void(int64_t row, float* codes)>;

RowSource scaled_rows(int64_t rows, int64_t cols, ReadCodes read_codes, BlockScales blocks);

}  // namespace pagedinfer
