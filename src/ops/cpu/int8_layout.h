// How the weights and the input of a product in int8 lie in memory (docs/numerics.md defines the
// product).
//
// Weights (outputs, k) are cut into panels of 64 outputs, so that a thread reads one contiguous run
// of memory. A panel has its columns in fours: the first four columns of output 0, of output 1, and
// so on to output 63, then the next four. Each number is stored as w + 128, for AMX as w. The 64
// scales of the outputs follow, as float32. Columns are padded to a multiple of 64 with zeros,
// outputs to whole panels with anything.
//
// The input (rows, k) is cut into groups of 256 columns. The numbers of the first group of all rows
// are followed by those of the next one: (groups, rows, 256), padded with zeros. Then come the
// scales, (groups, rows), and the shifts, (groups, rows): 128 times the sum of the numbers, which
// is what the 128 in the weights adds to each product (AMX leaves them aside). Rows are padded to a
// multiple of 16.
//
// All has internal linkage because this file is compiled for several instruction sets.
#pragma once

#include <cstdint>
#include <cstring>

namespace pagedinfer {
namespace {

constexpr int kInt8Panel = 64;                  // outputs
constexpr int kInt8Group = 256;                 // columns of the input that share a scale
constexpr int kFour = 4;                        // columns of an output that lie together
constexpr int kFourBytes = kInt8Panel * kFour;  // four columns of a panel
constexpr int kInt8Step = 64;                   // columns are padded to a multiple of it
constexpr int kInt8Zero = 128;                  // what is added to a weight

constexpr int64_t int8_columns(int64_t k) { return (k + kInt8Step - 1) / kInt8Step * kInt8Step; }
constexpr int64_t int8_panels(int64_t outputs) { return (outputs + kInt8Panel - 1) / kInt8Panel; }
constexpr int64_t int8_panel_bytes(int64_t k) {
  return (int8_columns(k) + int64_t{sizeof(float)}) * kInt8Panel;
}
// Where the scales of a panel begin.
constexpr int64_t int8_scales_at(int64_t k) { return int8_columns(k) * kInt8Panel; }

// The packed input. Numbers are int8_t or, as integers of 16 bits, int16_t.
template <class Number>
struct Int8Input {
  Int8Input(const void* packed, int num_rows, int k)
      : rows((num_rows + 15) / 16 * 16),
        numbers((Number*)packed),
        scales((float*)(numbers + num_groups(k) * rows * kInt8Group)),
        shifts((int32_t*)(scales + num_groups(k) * rows)) {}

  static int64_t num_groups(int k) { return (k + kInt8Group - 1) / kInt8Group; }
  // The place of a group of a row in scales and shifts; its numbers are kInt8Group times as far.
  int64_t at(int group, int row) const { return group * rows + row; }
  // Copies a group of a row of another input.
  void copy(int64_t at, const Int8Input& from, int64_t from_at) const {
    memcpy(numbers + at * kInt8Group, from.numbers + from_at * kInt8Group,
           kInt8Group * sizeof(Number));
    scales[at] = from.scales[from_at];
    shifts[at] = from.shifts[from_at];
  }

  int64_t rows;
  Number* numbers;
  float* scales;
  int32_t* shifts;
};

}  // namespace
}  // namespace pagedinfer
