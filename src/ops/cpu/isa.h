#pragma once

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/kernels.h"

namespace pagedinfer {

// The kernels of an instruction set. AMX has its own product only; the rest is AVX-512's.
const Kernels& kernels_of(CpuIsa isa);

}  // namespace pagedinfer
