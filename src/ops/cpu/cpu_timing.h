#pragma once

#include "ops/cpu/cpu_state.h"
#include "ops/timing.h"

namespace pagedinfer {

// The Timing of make_cpu_ops(). Its timers are the caller's clock.
class CpuTiming final : public Timing {
 public:
  // REQUIRES: the state outlives it.
  explicit CpuTiming(CpuState& state) : state_(state) {}

  void copy(Tensor from, Tensor to) override;

 private:
  CpuState& state_;
};

}  // namespace pagedinfer
