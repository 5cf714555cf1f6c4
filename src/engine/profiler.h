#pragma once

#include <functional>
#include <memory>

#include "core/profile.h"
#include "ops/timed_ops.h"
#include "stats/profile.h"

namespace pagedinfer {

// What a run with --profile has around its Ops.
class Profiler {
 public:
  // REQUIRES: `ops` outlives it.
  Profiler(Ops& ops, const DevicePeaks& peaks, const std::function<double()>& clock)
      : report_(peaks),
        timer_(ops.make_timer(clock)),
        ops_(ops, *timer_, [this](const TimedStep& step) { report_.add(step); }) {}
  Profiler(const Profiler&) = delete;

  TimedOps& ops() { return ops_; }
  Profile profile() const { return report_.profile(); }

 private:
  ProfileReport report_;
  std::unique_ptr<DeviceTimer> timer_;
  TimedOps ops_;
};

}  // namespace pagedinfer
