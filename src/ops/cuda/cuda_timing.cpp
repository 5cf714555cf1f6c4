#include "ops/cuda/cuda_timing.h"

#include "core/check.h"
#include "ops/cuda/event_timer.h"

namespace pagedinfer {

std::unique_ptr<DeviceTimer> CudaTiming::make_timer(std::function<double()>) {
  return std::make_unique<EventTimer>(state_.stream.get());
}

void CudaTiming::copy(Tensor from, Tensor to) {
  CHECK(from.stride == from.cols && to.stride == to.cols && from.bytes() == to.bytes());
  check_cuda(cudaMemcpyAsync(to.data, from.data, static_cast<size_t>(from.bytes()),
                             cudaMemcpyDeviceToDevice, state_.stream.get()),
             "a copy on the GPU");
}

}  // namespace pagedinfer
