// Measures how long the work of a device takes, without waiting for it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/tensor.h"

namespace pagedinfer {

// Places marks in the queue of a device and measures the seconds between them.
class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;

  // Queues a mark after all work queued so far. Does not wait.
  virtual void mark() = 0;
  // Removes the seconds.size() oldest marks. For each it stores the seconds since the previous
  // mark, 0 for the first mark of all. Waits until the device has passed them.
  virtual void take(std::span<double> seconds) = 0;
};

// For a device whose work is done when a call returns. `clock` returns seconds.
class ClockTimer final : public DeviceTimer {
 public:
  explicit ClockTimer(std::function<double()> clock) : clock_(std::move(clock)) {}

  void mark() override { marks_.push_back(clock_()); }
  void take(std::span<double> seconds) override;

 private:
  std::function<double()> clock_;
  std::deque<double> marks_;
  std::optional<double> last_;  // the last mark that was taken
};

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
