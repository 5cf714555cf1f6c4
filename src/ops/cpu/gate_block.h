#pragma once

#include "core/cpu_isa.h"
#include "core/tensor.h"

namespace pagedinfer {

// The rows and columns of gate and up that a task computes. The next product has an input of such a
// type; parts of a row with these columns can be packed for it by themselves.
struct GateBlock {
  int rows, columns;
};
inline GateBlock gate_block(CpuIsa isa, DType input) {
  // AMX multiplies so fast that fewer rows would wait for the weights.
  const bool is_amx = isa == CpuIsa::kAmx;
  switch (input) {
    case DType::kF32: return {64, 512};
    case DType::kI8:
    case DType::kI4: return {is_amx ? 256 : 128, 256};
    default: return is_amx ? GateBlock{256, 128} : GateBlock{64, 256};
  }
}

}  // namespace pagedinfer
