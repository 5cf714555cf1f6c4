// How the weights and the input of a product in int8 lie in the GPU's memory (docs/numerics.md
// defines the product). Eight rows are a panel. It has its columns in pieces of 64, and a piece is
// its eight rows one after another: 512 bytes, of which each lane of a warp loads 16, so that the
// warp has the operands of two instructions of tensor cores. Columns are padded with zeros to whole
// pieces.
//
// The pieces of a panel of weights are followed by the scales of its rows, as float32, padded to
// 128 bytes. A last panel that is not full is padded with zeros. The panels of the input are
// followed by its scales, (groups, padded rows), one for each 256 columns of a row. Rows of padding
// have no effect on the result.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace pagedinfer::kernels {

constexpr int kInt8Rows = 8;      // of a panel
constexpr int kInt8Columns = 64;  // of a piece
constexpr int kInt8Group = 256;   // columns of the input that share a scale
constexpr int kInt8PieceBytes = kInt8Rows * kInt8Columns;
constexpr int kInt8GroupPieces = kInt8Group / kInt8Columns;
constexpr int64_t kInt8ScaleBytes = 128;  // of a panel of weights

KERNEL_HD constexpr int64_t int8_pieces(int64_t cols) {
  return (cols + kInt8Columns - 1) / kInt8Columns;
}
KERNEL_HD constexpr int64_t int8_groups(int64_t cols) {
  return (cols + kInt8Group - 1) / kInt8Group;
}
KERNEL_HD constexpr int64_t int8_panels(int64_t rows) { return (rows + kInt8Rows - 1) / kInt8Rows; }

// Of a panel of the input, and where the scales of a panel of weights begin.
KERNEL_HD constexpr int64_t int8_numbers_bytes(int64_t cols) {
  return int8_pieces(cols) * kInt8PieceBytes;
}
KERNEL_HD constexpr int64_t int8_weight_panel_bytes(int64_t cols) {
  return int8_numbers_bytes(cols) + kInt8ScaleBytes;
}
KERNEL_HD constexpr int64_t int8_input_bytes(int64_t rows, int64_t cols) {
  return int8_panels(rows) *
         (int8_numbers_bytes(cols) + int8_groups(cols) * kInt8Rows * int64_t{sizeof(float)});
}

// The place of a number in its panel.
KERNEL_HD constexpr int64_t int8_offset(int64_t row, int64_t column) {
  return column / kInt8Columns * kInt8PieceBytes + row % kInt8Rows * kInt8Columns +
         column % kInt8Columns;
}

}  // namespace pagedinfer::kernels
