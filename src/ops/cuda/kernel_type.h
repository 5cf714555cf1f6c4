#pragma once

#include "core/check.h"
#include "core/tensor.h"
#include "kernels/types.h"

namespace pagedinfer {

// The kernels' name of a type. REQUIRES: they compute in it.
inline kernels::Type type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return kernels::Type::kF32;
    case DType::kBF16: return kernels::Type::kBF16;
    case DType::kF16: return kernels::Type::kF16;
    case DType::kI32: break;
    case DType::kI8:
    case DType::kI4: break;
  }
  CHECK(false);
}

}  // namespace pagedinfer
