// Matrices of weights in bfloat16 panels (bf16_layout.h), from any type of the checkpoint.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "ops/cpu/kernels.h"

namespace pagedinfer {

// Rows that one call of pack_bf16_rows() packs; panels hold a multiple of them.
constexpr int kBf16PackedRows = 16;

// Bytes of a packed matrix.
int64_t bf16_weight_bytes(int64_t rows, int64_t cols);

// Packs rows [first, first + kBf16PackedRows) of a matrix, as far as it has them, rounded to
// bfloat16. Threads pack different rows. REQUIRES: `first` is a multiple of kBf16PackedRows, and
// `packed` has room for bf16_weight_bytes().
void pack_bf16_rows(const Kernels& kernels, const Tensor& host, int64_t first, char* packed);

// The view of a packed matrix.
Tensor bf16_weights(char* packed, int64_t rows, int64_t cols);

// Row i as float32. REQUIRES: `weights` is what bf16_weights() returned.
void widen_bf16_row(const Kernels& kernels, const Tensor& weights, int64_t i, float* y);

}  // namespace pagedinfer
