// How a device is timed without waiting for it.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>

namespace pagedinfer {

// Marks among the work that is queued on a device, and the seconds between them.
class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;

  // A mark behind all work that has been queued. Waits for nothing.
  virtual void mark() = 0;
  // Of each of the oldest marks not yet taken: the seconds since the one before it, 0 for the
  // first of all. Waits where the device is not past them yet.
  virtual void take(std::span<double> seconds) = 0;
};

// For a device whose work is done when a call returns. `clock` gives seconds.
class ClockTimer final : public DeviceTimer {
 public:
  explicit ClockTimer(std::function<double()> clock) : clock_(std::move(clock)) {}

  void mark() override { marks_.push_back(clock_()); }
  void take(std::span<double> seconds) override;

 private:
  std::function<double()> clock_;
  std::deque<double> marks_;
  std::optional<double> last_;  // of those that were taken
};

}  // namespace pagedinfer
