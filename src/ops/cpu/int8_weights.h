// Matrices of weights in int8 (int8_layout.h), from any type of the checkpoint.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "ops/cpu/kernels.h"

namespace pagedinfer {

// Rows that one call of pack_int8_rows() packs; panels hold a multiple of them.
constexpr int kInt8PackedRows = 16;

// Bytes of a packed matrix.
int64_t int8_weight_bytes(int64_t rows, int64_t cols);

// Packs rows [first, first + kInt8PackedRows) of a matrix, as far as it has them. Threads pack
// different rows. REQUIRES: `first` is a multiple of kInt8PackedRows, `packed` has room for
// int8_weight_bytes(), and the calling thread has FlushDenormals.
void pack_int8_rows(const Kernels& kernels, const Tensor& host, int64_t first, char* packed);

// The view of a packed matrix.
Tensor int8_weights(char* packed, int64_t rows, int64_t cols);

// Row i as float32. REQUIRES: `weights` is what int8_weights() returned.
void widen_int8_row(const Kernels& kernels, const Tensor& weights, int64_t i, float* y);

// Converts n numbers of a row of the checkpoint, from column `first`, to float32.
void widen_numbers(const Kernels& kernels, const Tensor& x, int64_t row, int64_t first, int64_t n,
                   float* y);

}  // namespace pagedinfer
