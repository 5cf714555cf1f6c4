// The differences between the types of the CPU's cache. The kernels do not include this.
#pragma once

#include "core/tensor.h"

namespace pagedinfer {

// Keys are interleaved in units (kv_layout.h): of one number, but for bfloat16 of two.
constexpr int64_t key_unit_bytes(DType type) { return type == DType::kBF16 ? 4 : size_of(type); }

}  // namespace pagedinfer
