#pragma once

#include "ops/cuda/cuda_state.h"
#include "ops/timing.h"

namespace pagedinfer {

// The Timing of make_cuda_ops(). Its timers are events in the stream.
class CudaTiming final : public Timing {
 public:
  // REQUIRES: the state outlives it.
  explicit CudaTiming(CudaState& state) : state_(state) {}

  std::unique_ptr<DeviceTimer> make_timer(std::function<double()> clock) override;
  void copy(Tensor from, Tensor to) override;

 private:
  CudaState& state_;
};

}  // namespace pagedinfer
