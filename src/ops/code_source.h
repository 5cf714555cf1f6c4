#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/code_types.h"
#include "ops/row_source.h"

namespace pagedinfer {

// A matrix of codes of 4 to 8 bits, whose rows are read when they are asked for. Columns are in
// groups; a group of a row has a scale and perhaps a zero point: value = (code - zero point) *
// scale. A group of 32 may have a minimum: value = (code - zero point) * scale - minimum. Or a
// group of 256 columns is a super-block: `sub_group` columns each have a sub-scale,
// an integer with a sign below 128, and perhaps a sub-minimum, an integer below 64:
// value = (scale * sub-scale) * (code - zero point) - scale of minima * sub-minimum.
struct CodeSource {
  int64_t rows = 0, cols = 0;
  int64_t group = 0;  // columns, of which the last group may have fewer; 0: a whole row
  CodeValues values = CodeValues::kUniform;
  CodeScales scales = CodeScales::kF32;  // a type that holds them exactly
  bool has_zeros = false;                // of kUniform, by group
  int zero = 8;             // the zero point of uniform codes without has_zeros; of others it is 0
  int64_t sub_group = 0;    // 16 or 32: super-blocks. REQUIRES: whole ones, without has_zeros
  bool has_minima = false;  // of super-blocks, or of groups of 32 without has_zeros
  // The i-th column of the groups is column_order[i], a permutation; empty: column i. A group is
  // `group` neighbours in this order.
  std::vector<int32_t> column_order = {};
  // Writes `count` rows from row `first` on, one after another: codes in the order of the matrix,
  // one in a byte; then what groups have, scales_of_row() and bytes_of_row() for each row. A group
  // has its scale, then its minimum or the scale of its minima; and in `bytes` its zero point (0 to
  // 16), or its sub-scales, then its sub-minima. `bytes` is null where there are none. Several
  // threads may call it at once. It throws nothing.
  std::function<void(int64_t first, int64_t count, uint8_t* codes, float* scales, uint8_t* bytes)>
      read = {};

  int64_t num_groups() const { return group == 0 ? 1 : (cols + group - 1) / group; }
  int64_t num_subs() const { return sub_group == 0 ? 0 : group / sub_group; }  // of a group
  int64_t scales_of_group() const { return has_minima ? 2 : 1; }
  int64_t bytes_of_group() const {
    return sub_group == 0 ? int64_t{has_zeros} : num_subs() * scales_of_group();
  }
  int64_t scales_of_row() const { return num_groups() * scales_of_group(); }
  int64_t bytes_of_row() const { return num_groups() * bytes_of_group(); }
};

// Whether products can keep the codes of groups of this size: 32, 64, 128, multiples of 256, or
// whole rows (0, or not less than the columns).
bool can_keep_groups(int64_t group, int64_t cols);

// The value of a code without its zero point: an integer.
int value_of_code(CodeValues values, int code);
// Of codes whose groups have none of their own.
int zero_point(const CodeSource& source);
// The value of an integer less its zero point, at a column of its group. `scales` and `bytes` are
// of the group.
float value_of_number(const CodeSource& source, int number, const float* scales,
                      const uint8_t* bytes, int64_t column);

// The rows as numbers: float(code - zero point) * scale. Threads that read them need
// FlushDenormals.
RowSource dequantized(const CodeSource& source);

// Rows [first, first + rows) of a matrix. REQUIRES: it has them.
CodeSource part_of(const CodeSource& source, int64_t first, int64_t rows);

// Rounds each group of the columns of a matrix to codes (docs/numerics.md). Threads that read them
// need FlushDenormals.
CodeSource rounded_to_codes(RowSource source, int64_t group);

}  // namespace pagedinfer
