#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace pagedinfer {

// `count` numbers of one type as another: float32, bfloat16 and float16, to nearest even. What a
// float16 cannot hold becomes infinite.
void convert(const void* from, DType from_type, void* to, DType to_type, int64_t count);

}  // namespace pagedinfer
