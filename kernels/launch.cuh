// The two places where kernels touch what only nvcc understands. The tests put a header of their
// own in the place of this one and run the kernels on the CPU.
#pragma once

#include <cuda_runtime.h>

namespace pagedinfer::kernels {

// Queues kernel(args). An error is left to cudaGetLastError().
template <class... Params, class... Args>
void launch_kernel(void (*kernel)(Params...), dim3 grid, dim3 block, int shared_bytes,
                   cudaStream_t stream, const Args&... args) {
  kernel<<<grid, block, shared_bytes, stream>>>(args...);
}

// The shared memory that a launch gives in bytes.
__device__ inline unsigned char* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];
  return dynamic_shared_bytes;
}

}  // namespace pagedinfer::kernels
