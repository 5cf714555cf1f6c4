#pragma once

#include "ops/cpu/kernels.h"

namespace pagedinfer {

// The product of numbers rounded to bfloat16, for processors with AMX: the same bits as the
// product_bf16 of every Kernels.
extern const ProductKernels kAmxProduct;

}  // namespace pagedinfer
