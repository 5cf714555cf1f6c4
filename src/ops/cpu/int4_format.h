// Matrices of codes in the order in which products read them (int4_layout.h).
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "ops/code_source.h"

namespace pagedinfer {

// The bytes of a packed matrix. CodeSource::read may be missing.
int64_t int4_bytes(const CodeSource& source);

// Writes the header and the order of the columns. `packed`: int4_bytes() zeros.
Tensor begin_int4(const CodeSource& source, char* packed);
constexpr int kPackedCodeRows = 64;  // a panel, whose outputs share bytes
// Packs `count` rows from row `first` on. Threads pack different panels.
// REQUIRES: no rows beyond the panel of the first one; `matrix` is of begin_int4().
void pack_int4_rows(const CodeSource& source, int64_t first, int64_t count, const Tensor& matrix);

// Row i as float32. REQUIRES: `weights` is of begin_int4(); the thread has FlushDenormals.
void widen_int4_row(const Tensor& weights, int64_t i, float* y);

// The order of the columns of weights of any type; null: their own.
const int32_t* column_order(const Tensor& weights);

}  // namespace pagedinfer
