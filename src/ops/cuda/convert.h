#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace pagedinfer {

// Converts `count` numbers between float32, bfloat16 and float16, rounding to nearest, ties to
// even. Numbers beyond the range of float16 become infinite.
void convert(const void* from, DType from_type, void* to, DType to_type, int64_t count);

}  // namespace pagedinfer
