#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/code_types.h"
#include "ops/row_source.h"

namespace pagedinfer {

// A matrix of codes of 4 bits, whose rows are read when they are asked for. Columns are in groups;
// a group of a row has a scale and perhaps a zero point: value = (code - zero point) * scale.
struct CodeSource {
  int64_t rows = 0, cols = 0;
  int64_t group = 0;  // columns, of which the last group may have fewer; 0: a whole row
  CodeValues values = CodeValues::kUniform;
  CodeScales scales = CodeScales::kF32;  // a type that holds them exactly
  bool has_zeros = false;                // of kUniform; false: the zero point is 8, and 0 of kFp4
  // The i-th column of the groups is column_order[i], a permutation; empty: column i. A group is
  // `group` neighbours in this order.
  std::vector<int32_t> column_order = {};
  // Writes `count` rows from row `first` on, one after another: codes in the order of the matrix,
  // one in a byte; scales and zero points (0 to 16) by group, num_groups() for each row. `zeros` is
  // null without zero points. Several threads may call it at once. It throws nothing.
  std::function<void(int64_t first, int64_t count, uint8_t* codes, float* scales, uint8_t* zeros)>
      read = {};

  int64_t num_groups() const { return group == 0 ? 1 : (cols + group - 1) / group; }
};

// Whether products can keep the codes of groups of this size: 32, 64, 128, multiples of 256, or
// whole rows (0, or not less than the columns).
bool can_keep_groups(int64_t group, int64_t cols);

// The value of a code without its zero point: the code, or the integer of kFp4.
int value_of_code(CodeValues values, int code);

// The rows as numbers: float(code - zero point) * scale. Threads that read them need
// FlushDenormals.
RowSource dequantized(const CodeSource& source);

// Rows [first, first + rows) of a matrix. REQUIRES: it has them.
CodeSource part_of(const CodeSource& source, int64_t first, int64_t rows);

// Rounds each group of the columns of a matrix to codes (docs/numerics.md). Threads that read them
// need FlushDenormals.
CodeSource rounded_to_codes(RowSource source, int64_t group);

}  // namespace pagedinfer
