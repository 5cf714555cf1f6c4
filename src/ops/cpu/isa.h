#pragma once

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/kernels.h"

namespace pagedinfer {

// The kernels of an instruction set. Those of AVX-512 serve AMX too, which has only a product of
// its own (amx_matmul.h).
const Kernels& kernels_of(CpuIsa isa);

}  // namespace pagedinfer
