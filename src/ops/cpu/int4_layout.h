// How weights in codes of 4 to 8 bits and the input of their products lie in memory
// (docs/numerics.md defines the product).
//
// A matrix begins with a header. Its weights (outputs, k) are cut into panels of 64 outputs, so
// that a thread reads one contiguous run of memory. A panel is a sequence of groups of columns:
// their codes, then the scales of the 64 outputs in the type of the file, then perhaps their minima
// or the scales of these, then perhaps their zero points, a byte each, or for each sub-scale, and
// then for each sub-minimum, 64 bytes. The codes of eight columns are 256 bytes, four for each
// output, whose lower halves are the first four columns and whose upper halves are the other four.
// Of codes of 5 bits 64 bytes with the fifth bits follow: bit v of byte i is of byte 64 * v + i
// before, its lower half, and bit v + 4 its upper half. Of codes of 6 bits 128 bytes follow, 64 for
// each half: bits 2v and 2v + 1 are of byte 64 * v + i. Bytes lie as in int8, two fours of columns,
// and are stored as w + 128. Columns are padded with zeros to a multiple of 64, or of the group if
// it is smaller; outputs to whole panels with zeros. The order of the columns follows the panels,
// where it is not their own.
//
// The input is that of products in int8 (int8_layout.h), with numbers of 8 bits. In place of the
// shifts there are sums of the numbers, times -1, as integers of 16 bits. Each group of each row
// has 32 places: 16 for the sums of 16 columns, 8 of 32, 4 of 64, 2 of 128, one of all, and an
// unused one.
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
constexpr int kMinCodeGroup = 16;                           // columns that share a scale
constexpr int kMaxCodeGroups = kInt8Group / kMinCodeGroup;  // in a group of the input
constexpr int kNumSums = 32;

struct Int4Header {
  int32_t group;  // of columns: 32, 64, 128 or 256
  CodeValues values;
  CodeScales scales;
  bool has_zeros, has_minima;
  int32_t zero, sub_group;  // of CodeSource
  int64_t order_at;         // where int32_t columns begin; 0: they are in their own order
  int64_t unused[5];
};
static_assert(sizeof(Int4Header) == 64);

constexpr int64_t size_of_scale(CodeScales scales) {
  if (scales == CodeScales::kE8M0) return 1;
  return scales == CodeScales::kF32 ? 4 : 2;
}
constexpr int8_t bits_of(CodeValues values) {
  if (values == CodeValues::kBytes) return 8;
  return values == CodeValues::kUniform6 ? 6 : values == CodeValues::kUniform5 ? 5 : 4;
}
constexpr int bytes_of_eight(CodeValues values) { return kInt4Eight * bits_of(values) * 8; }
constexpr int64_t bytes_of_codes(CodeValues values, int64_t columns) {
  return columns * bits_of(values) * (kInt8Panel / 8);
}
constexpr int64_t int4_columns(int64_t k, int64_t group) {
  const int64_t step = group < kInt8Step ? group : kInt8Step;
  return (k + step - 1) / step * step;
}
// What follows the codes of a group.
constexpr int64_t int4_side_bytes(const Int4Header& header) {
  const int scales = header.has_minima ? 2 : 1;
  const int subs = header.sub_group == 0 ? 0 : header.group / header.sub_group;
  return kInt8Panel * (scales * (size_of_scale(header.scales) + subs) + (header.has_zeros ? 1 : 0));
}
constexpr int64_t int4_panel_bytes(const Int4Header& header, int64_t k) {
  const int64_t columns = int4_columns(k, header.group);
  return bytes_of_codes(header.values, columns) +
         (columns + header.group - 1) / header.group * int4_side_bytes(header);
}
// Of a group that is not the last one.
constexpr int64_t int4_group_bytes(const Int4Header& header) {
  return bytes_of_codes(header.values, header.group) + int4_side_bytes(header);
}
// Where the sums of groups of so many columns begin.
constexpr int sums_at(int group) { return kNumSums - 2 * (kInt8Group / group); }

// What is subtracted from a number without a sign, where groups have no zero points.
constexpr int zero_of(const Int4Header& header) {
  if (header.values == CodeValues::kFp4) return 12;
  const bool has_sign = header.values == CodeValues::kTable || header.values == CodeValues::kBytes;
  return has_sign ? kInt8Zero : header.zero;
}
// Whether two products of such numbers with the input's saturate 16 bits.
constexpr bool is_wide(CodeValues values) {
  return values == CodeValues::kTable || values == CodeValues::kBytes;
}
// The numbers without a sign of kFp4 and kTable.
constexpr uint8_t kFp4Numbers[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
constexpr uint8_t kTableNumbers[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                       129, 141, 153, 166, 181, 197, 217, 241};

// The packed input.
struct Int4Input {
  Int4Input(const void* packed, int num_rows, int k)
      : rows((num_rows + 15) / 16 * 16),
        numbers((int8_t*)packed),
        sums((int16_t*)(numbers + num_groups(k) * rows * kInt8Group)),
        scales((float*)(sums + num_groups(k) * rows * kNumSums)) {}

  static int64_t num_groups(int k) { return (k + kInt8Group - 1) / kInt8Group; }
  // The place of a group of a row in scales; its numbers are kInt8Group times as far, its sums
  // kNumSums times.
  int64_t at(int group, int row) const { return group * rows + row; }
  // Copies a group of a row of another input.
  void copy(int64_t at, const Int4Input& from, int64_t from_at) const {
    memcpy(numbers + at * kInt8Group, from.numbers + from_at * kInt8Group, kInt8Group);
    memcpy(sums + at * kNumSums, from.sums + from_at * kNumSums, kNumSums * sizeof(int16_t));
    scales[at] = from.scales[from_at];
  }

  int64_t rows;
  int8_t* numbers;
  int16_t* sums;
  float* scales;
};

}  // namespace
}  // namespace pagedinfer
