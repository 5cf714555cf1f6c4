#pragma once

#include <functional>
#include <optional>

#include "engine/pull.h"

namespace pagedinfer {

// What an ArrivalGate stands in front of. Times are in seconds on the run's clock.
struct ArrivalParts {
  std::function<Pull(bool wait, IntakeItem& item)> pull;  // as Intake::pull()
  std::function<double()> clock;
  std::function<void(double seconds)> sleep;  // may end early, as it does when the run is to end
  std::function<void()> before_wait;          // called before each wait, for a line or an arrival
  // The first item arrives at once, and the others as much later as they arrive after it.
  bool skips_to_first = false;
};

// Holds each item until its line arrives: RecordHead::arrival after the first call of next(). Items
// of lines without a time arrive when they are read.
class ArrivalGate {
 public:
  explicit ArrivalGate(ArrivalParts parts) : parts_(std::move(parts)) {}

  // As EnginePorts::next. Sets RecordHead::arrived of an item that has a time: to when it arrived,
  // even if it was read later.
  Pull next(Wait wait, IntakeItem& item);

 private:
  Pull fetch(Wait wait);

  const ArrivalParts parts_;
  std::optional<double> asked_ = {};   // when the first item was asked for
  std::optional<double> offset_ = {};  // of the clock of arrivals; there after the first item
  std::optional<IntakeItem> held_ = {};
  double due_ = 0;  // when the held item arrives
};

}  // namespace pagedinfer
