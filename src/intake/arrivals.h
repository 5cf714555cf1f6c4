#pragma once

#include <functional>
#include <optional>

#include "engine/pull.h"

namespace pagedinfer {

// The parts of an ArrivalGate. Times are in seconds on the run's clock.
struct ArrivalParts {
  std::function<Pull(bool wait, IntakeItem& item)> pull;  // as Intake::pull()
  std::function<double()> clock;
  std::function<void(double seconds)> sleep;  // may return early, as when the run is interrupted
  std::function<void()> before_wait;          // called before each wait, for a line or an arrival
  // The first item arrives at once, and the other times are counted from its time.
  bool skips_to_first = false;
};

// Holds each item until its line arrives, RecordHead::arrival seconds after the first call of
// next(). Items of lines without a time arrive when they are read.
class ArrivalGate {
 public:
  explicit ArrivalGate(ArrivalParts parts) : parts_(std::move(parts)) {}

  // As EnginePorts::next. Sets RecordHead::arrived of an item with a time to that time, even if the
  // line was read later.
  Pull next(Wait wait, IntakeItem& item);

 private:
  Pull fetch(Wait wait);

  const ArrivalParts parts_;
  std::optional<double> asked_ = {};   // when next() was first called
  std::optional<double> offset_ = {};  // added to arrival times; set with the first item
  std::optional<IntakeItem> held_ = {};
  double due_ = 0;  // when the held item arrives
};

}  // namespace pagedinfer
