#pragma once

#include "core/check.h"
#include "ops/activation.h"
#include "ops/cpu/kernels.h"

namespace pagedinfer {

// y = activation(x) * up, of n numbers.
inline void apply_gate(const Kernels& kernels, Activation activation, const ClampedSwish& swish,
                       const float* x, const float* up, float* y, int64_t n) {
  switch (activation) {
    case Activation::kSilu: return kernels.silu(x, up, y, n);
    case Activation::kGeluTanh: return kernels.gelu_tanh(x, up, y, n);
    case Activation::kClampedSwish:
      return kernels.clamped_swish(x, up, swish.alpha, swish.limit, y, n);
  }
  CHECK(false);
}

}  // namespace pagedinfer
