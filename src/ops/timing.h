// Measures how long the work of a device takes.
#pragma once

#include <functional>
#include <memory>

#include "core/tensor.h"
#include "ops/device_timer.h"

namespace pagedinfer {

class Timing {
 public:
  virtual ~Timing() = default;

  // A timer for the device's queue. `clock` returns seconds; devices with a clock of their own
  // ignore it. REQUIRES: the Timing outlives the timer.
  virtual std::unique_ptr<DeviceTimer> make_timer(std::function<double()> clock);
  // Copies `from` to `to` as fast as the device can, to measure its peak. REQUIRES: both have the
  // same shape and type, without gaps between rows.
  virtual void copy(Tensor from, Tensor to) = 0;
};

}  // namespace pagedinfer
