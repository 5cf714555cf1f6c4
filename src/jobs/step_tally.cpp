#include "jobs/step_tally.h"

#include <numeric>

namespace pagedinfer {

void RunningCounts::add(int running, double seconds) {
  const auto index = static_cast<size_t>(running);
  if (seconds_.size() <= index) seconds_.resize(index + 1);
  seconds_[index] += seconds;
}

double RunningCounts::mean() const {
  double sum = 0, weighted = 0;
  for (size_t i = 0; i < seconds_.size(); ++i) {
    sum += seconds_[i];
    weighted += static_cast<double>(i) * seconds_[i];
  }
  return sum == 0 ? 0 : weighted / sum;
}

int RunningCounts::percentile(double percent) const {
  const double wanted = percent / 100 * std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
  double sum = 0;
  for (size_t i = 0; i < seconds_.size(); ++i) {
    sum += seconds_[i];
    if (sum >= wanted && sum > 0) return static_cast<int>(i);
  }
  return max();
}

void StepTally::add(const StepShape& shape, int running) {
  Entry& entry = entries_[{running, shape.decodes, shape.prefill_tokens}];
  ++entry.num_steps;
  entry.decode_keys += shape.decode_keys;
  entry.prefill_keys += shape.prefill_keys;
}

// A step's cost is linear in its keys, so that of the mean step, as often as there are steps, is
// that of all.
StepTally::Time StepTally::time(const StepCosts& costs) const {
  Time time;
  for (const auto& [numbers, entry] : entries_) {
    const auto [running, decodes, prefill_tokens] = numbers;
    const auto num_steps = static_cast<double>(entry.num_steps);
    const StepShape decode_part = {.decodes = decodes,
                                   .decode_keys = entry.decode_keys / num_steps};
    StepShape step = decode_part;
    step.prefill_tokens = prefill_tokens;
    step.prefill_keys = entry.prefill_keys / num_steps;
    const double seconds = num_steps * costs.seconds(step);
    const double decode_seconds = decodes > 0 ? num_steps * costs.seconds(decode_part) : 0;
    time.seconds += seconds;
    time.prefill_seconds += seconds - decode_seconds;
    time.running.add(running, seconds);
  }
  return time;
}

}  // namespace pagedinfer
