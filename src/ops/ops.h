#pragma once

#include <string>

#include "ops/arithmetic.h"
#include "ops/device_memory.h"
#include "ops/step_protocol.h"
#include "ops/timing.h"

namespace pagedinfer {

// A device: the four interfaces that a backend implements. Code that needs one takes only that one.
class Ops : public DeviceMemory, public StepProtocol, public Arithmetic, public Timing {
 public:
  // "cpu (avx512, 2 threads)": for the statistics.
  virtual std::string description() const = 0;
  // What the bits of deterministic runs depend on beside their settings: "NVIDIA H200, cuBLAS
  // 130100". "": nothing, they are the same on every device of this kind.
  virtual std::string arithmetic_name() const { return ""; }
};

}  // namespace pagedinfer
