#pragma once

#include "emulated.h"

namespace pagedinfer::kernels {

template <class... Params, class... Args>
void launch_kernel(void (*kernel)(Params...), dim3 grid, dim3 block, int shared_bytes, cudaStream_t,
                   const Args&... args) {
  emulated::run(grid, block, shared_bytes, [&] { kernel(args...); });
}

inline unsigned char* dynamic_shared() { return emulated::dynamic_shared(); }

}  // namespace pagedinfer::kernels
