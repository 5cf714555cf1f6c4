// The numbers of matrices as a checkpoint has them.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "ops/row_source.h"

namespace pagedinfer {

// REQUIRES: x is float32, bfloat16 or float16.
float stored_number(const Tensor& x, int64_t row, int64_t column);

// REQUIRES: the matrix has one of these types, and outlives the result.
RowSource stored_rows(const Tensor& matrix);

}  // namespace pagedinfer
