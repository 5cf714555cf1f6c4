// Orders of a type's own, into which matrices of weights are packed from any type of the
// checkpoint.
#pragma once

#include <cstdint>

#include "core/cpu_isa.h"
#include "core/tensor.h"
#include "ops/cpu/kernels.h"

namespace pagedinfer {

// Rows that one call of pack_rows() packs; panels hold a multiple of them.
constexpr int kPackedWeightRows = 16;

struct PackedFormat {
  // Of a packed matrix.
  int64_t (*bytes)(int64_t rows, int64_t cols);
  // Packs `rows`, which are those of a matrix from row `first` on. Threads pack different rows.
  // REQUIRES: they are kPackedWeightRows, or fewer if they are the last ones; `first` is a multiple
  // of that; `packed` has room for bytes(); the calling thread has FlushDenormals.
  void (*pack_rows)(const Kernels& kernels, const Tensor& rows, int64_t first, char* packed);
  // The view of a packed matrix.
  Tensor (*view)(char* packed, int64_t rows, int64_t cols);
  // Row i as float32. REQUIRES: `weights` is a view().
  void (*widen_row)(const Kernels& kernels, const Tensor& weights, int64_t i, float* y);
};

extern const PackedFormat kBf16Format;  // bf16_layout.h
// int8_layout.h: for instructions that multiply numbers without a sign by numbers with one, and for
// AMX.
extern const PackedFormat kInt8Format, kSignedInt8Format;

// REQUIRES: there is a format of that type.
inline const PackedFormat& packed_format(DType type, CpuIsa isa) {
  if (type != DType::kI8) return kBf16Format;
  return isa == CpuIsa::kAmx ? kSignedInt8Format : kInt8Format;
}

// Converts n numbers of a row of the checkpoint, from column `first`, to float32.
void widen_numbers(const Kernels& kernels, const Tensor& x, int64_t row, int64_t first, int64_t n,
                   float* y);

}  // namespace pagedinfer
