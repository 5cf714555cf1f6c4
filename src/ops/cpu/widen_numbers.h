#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "ops/cpu/kernels.h"

namespace pagedinfer {

// Converts n numbers of a row of the checkpoint, from column `first`, to float32.
void widen_numbers(const Kernels& kernels, const Tensor& x, int64_t row, int64_t first, int64_t n,
                   float* y);

}  // namespace pagedinfer
