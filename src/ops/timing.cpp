#include "ops/timing.h"

#include "core/check.h"

namespace pagedinfer {

void ClockTimer::take(std::span<double> seconds) {
  CHECK(seconds.size() <= marks_.size());
  for (double& interval : seconds) {
    interval = marks_.front() - last_.value_or(marks_.front());
    last_ = marks_.front();
    marks_.pop_front();
  }
}

std::unique_ptr<DeviceTimer> Timing::make_timer(std::function<double()> clock) {
  return std::make_unique<ClockTimer>(std::move(clock));
}

}  // namespace pagedinfer
