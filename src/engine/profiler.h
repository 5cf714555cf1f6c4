#pragma once

#include <functional>
#include <memory>

#include "core/profile.h"
#include "engine/engine.h"
#include "ops/timed_ops.h"
#include "ops/timing.h"
#include "stats/profile.h"

namespace pagedinfer {

// Times the device of a run with --profile.
class Profiler {
 public:
  // REQUIRES: steps, arithmetic and timing belong to one device, which outlives the Profiler.
  Profiler(StepProtocol& steps, Arithmetic& arithmetic, Timing& timing, const DevicePeaks& peaks,
           const std::function<double()>& clock)
      : report_(peaks),
        timer_(timing.make_timer(clock)),
        ops_(steps, arithmetic, *timer_, [this](const TimedStep& step) { report_.add(step); }) {}
  Profiler(const Profiler&) = delete;

  // The same parts, with the device timed.
  EngineParts in_front_of(const EngineParts& parts) {
    return {parts.spec,        parts.weights,   parts.cache, parts.pool,     ops_,
            ops_.arithmetic(), parts.tokenizer, parts.clock, parts.overlaps, parts.num_traced};
  }
  // Call when the engine has nothing to compute until the next step.
  void idle() { ops_.idle(); }
  Profile profile() const { return report_.profile(); }

 private:
  ProfileReport report_;
  std::unique_ptr<DeviceTimer> timer_;
  TimedOps ops_;
};

}  // namespace pagedinfer
