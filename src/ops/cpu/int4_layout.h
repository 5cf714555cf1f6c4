// How weights in codes of 4 bits and the input of their products lie in memory (docs/numerics.md
// defines the product).
//
// A matrix begins with a header. Its weights (outputs, k) are cut into panels of 64 outputs, so
// that a thread reads one contiguous run of memory. A panel is a sequence of groups of columns:
// their codes, then the scales of the 64 outputs in the type of the file, then perhaps their zero
// points, a byte each. The codes of eight columns are 256 bytes, four for each output, whose lower
// halves are the first four columns and whose upper halves are the other four. Columns are padded
// with zeros to a multiple of 64, or of the group if it is smaller; outputs to whole panels with
// zeros. The order of the columns follows the panels, where it is not their own.
//
// The input is that of products in int8 (int8_layout.h), with numbers of 8 bits. In place of the
// shifts there are sums of the numbers, all times -1 and of 16 places for each group of each row:
// of every 32 columns (8 places), every 64 (4), every 128 (2), and of all.
//
// All has internal linkage because this file is compiled for several instruction sets.
#pragma once

#include <cstdint>

#include "ops/code_types.h"
#include "ops/cpu/int8_layout.h"

namespace pagedinfer {
namespace {

constexpr int kInt4Eight = 8;  // columns whose codes lie together
constexpr int kInt4EightBytes = kInt8Panel * kInt4Eight / 2;
constexpr int kMinCodeGroup = 32;                           // columns that share a scale
constexpr int kMaxCodeGroups = kInt8Group / kMinCodeGroup;  // in a group of the input
constexpr int kNumSums = 16;

struct Int4Header {
  int32_t group;  // of columns: 32, 64, 128 or 256
  CodeValues values;
  CodeScales scales;
  bool has_zeros;
  int64_t order_at;  // where int32_t columns begin; 0: they are in their own order
  int64_t unused[6];
};
static_assert(sizeof(Int4Header) == 64);

constexpr int64_t size_of_scale(CodeScales scales) {
  if (scales == CodeScales::kE8M0) return 1;
  return scales == CodeScales::kF32 ? 4 : 2;
}
constexpr int64_t int4_columns(int64_t k, int64_t group) {
  const int64_t step = group < kInt8Step ? group : kInt8Step;
  return (k + step - 1) / step * step;
}
// What follows the codes of a group.
constexpr int64_t int4_side_bytes(const Int4Header& header) {
  return kInt8Panel * (size_of_scale(header.scales) + (header.has_zeros ? 1 : 0));
}
constexpr int64_t int4_panel_bytes(const Int4Header& header, int64_t k) {
  const int64_t columns = int4_columns(k, header.group);
  return columns * (kInt8Panel / 2) +
         (columns + header.group - 1) / header.group * int4_side_bytes(header);
}
// Of a group that is not the last one.
constexpr int64_t int4_group_bytes(const Int4Header& header) {
  return header.group * (kInt8Panel / 2) + int4_side_bytes(header);
}
// Where the sums of groups of so many columns begin.
constexpr int sums_at(int group) { return kNumSums - 2 * (kInt8Group / group); }

// What is subtracted from a number without a sign.
constexpr int kUniformZero = 8, kFp4Zero = 12;
constexpr int zero_of(CodeValues values) {
  return values == CodeValues::kUniform ? kUniformZero : kFp4Zero;
}
// The numbers without a sign of kFp4.
constexpr uint8_t kFp4Numbers[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// The packed input.
struct Int4Input {
  Int4Input(const void* packed, int num_rows, int k)
      : rows((num_rows + 15) / 16 * 16),
        numbers((int8_t*)packed),
        sums((int32_t*)(numbers + num_groups(k) * rows * kInt8Group)),
        scales((float*)(sums + num_groups(k) * rows * kNumSums)) {}

  static int64_t num_groups(int k) { return (k + kInt8Group - 1) / kInt8Group; }
  // The place of a group of a row in scales; its numbers are kInt8Group times as far, its sums
  // kNumSums times.
  int64_t at(int group, int row) const { return group * rows + row; }

  int64_t rows;
  int8_t* numbers;
  int32_t* sums;
  float* scales;
};

}  // namespace
}  // namespace pagedinfer
