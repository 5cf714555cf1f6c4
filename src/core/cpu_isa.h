#pragma once

#include <cstdint>

namespace pagedinfer {

// The instruction sets that the CPU's kernels are compiled for, slowest first.
enum class CpuIsa : uint8_t { kPortable, kAvx2, kAvx512, kAmx };

}  // namespace pagedinfer
