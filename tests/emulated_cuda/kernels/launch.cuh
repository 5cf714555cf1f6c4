#pragma once

#include <tuple>

#include "cuda_runtime.h"

namespace pagedinfer::kernels {

template <class... Params, class... Args>
void launch_kernel(void (*kernel)(Params...), dim3 grid, dim3 block, int shared_bytes,
                   cudaStream_t stream, const Args&... args) {
  const std::tuple<Params...> values(args...);
  emulated::launch({reinterpret_cast<const void*>(kernel), grid, block, shared_bytes}, stream,
                   [kernel, values] { std::apply(kernel, values); });
}

inline unsigned char* dynamic_shared() { return emulated::dynamic_shared(); }

}  // namespace pagedinfer::kernels
