#include "intake/arrivals.h"

#include <utility>

namespace pagedinfer {

Pull ArrivalGate::next(Wait wait, IntakeItem& item) {
  if (!asked_) asked_ = parts_.clock();
  if (!held_) {
    const Pull pulled = fetch(wait);
    if (pulled != Pull::kItem) return pulled;
  }
  double now = parts_.clock();
  if (wait == Wait::kForArrival && now < due_) {
    parts_.before_wait();
    now = parts_.clock();
    if (now < due_) parts_.sleep(due_ - now);
    now = parts_.clock();
  }
  if (now < due_) return Pull::kNotArrived;
  item = *std::exchange(held_, std::nullopt);
  return Pull::kItem;
}

// Pulls the next item and holds it.
Pull ArrivalGate::fetch(Wait wait) {
  IntakeItem item;
  Pull pulled = parts_.pull(false, item);
  if (pulled == Pull::kLater && wait != Wait::kNo) {
    parts_.before_wait();
    pulled = parts_.pull(true, item);
  }
  if (pulled != Pull::kItem) return pulled;
  RecordHead& head = head_of(item);
  if (!offset_) offset_ = *asked_ - (parts_.skips_to_first ? head.arrival.value_or(0) : 0);
  if (head.arrival) head.arrived = *offset_ + *head.arrival;
  due_ = head.arrived;
  held_ = std::move(item);
  return pulled;
}

}  // namespace pagedinfer
