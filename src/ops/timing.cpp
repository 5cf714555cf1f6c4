#include "ops/timing.h"

#include <utility>

namespace pagedinfer {

std::unique_ptr<DeviceTimer> Timing::make_timer(std::function<double()> clock) {
  return std::make_unique<ClockTimer>(std::move(clock));
}

}  // namespace pagedinfer
