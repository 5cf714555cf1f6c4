// The only code of the kernels that needs nvcc: launching and dynamic shared memory. The tests
// replace this header (tests/emulated_cuda/kernels/launch.cuh) and run the kernels on the CPU.
#pragma once

#include <cuda_runtime.h>

namespace pagedinfer::kernels {

// Queues kernel(args) on the stream. cudaGetLastError() tells of an error.
template <class... Params, class... Args>
void launch_kernel(void (*kernel)(Params...), dim3 grid, dim3 block, int shared_bytes,
                   cudaStream_t stream, const Args&... args) {
  kernel<<<grid, block, shared_bytes, stream>>>(args...);
}

// The `shared_bytes` of the launch.
__device__ inline unsigned char* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];
  return dynamic_shared_bytes;
}

}  // namespace pagedinfer::kernels
