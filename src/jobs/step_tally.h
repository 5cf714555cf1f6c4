#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "jobs/step_costs.h"

namespace pagedinfer {

// How many sequences ran at once, each number weighted by the time that its steps take.
class RunningCounts {
 public:
  void add(int running, double seconds);
  double mean() const;
  int percentile(double percent) const;  // the smallest that was enough for that share of the time
  int max() const { return static_cast<int>(seconds_.size()) - 1; }

 private:
  std::vector<double> seconds_ = {0};
};

// Steps whose time is asked for later. Those that differ in nothing but their keys are added up, so
// there are no more entries than different steps.
class StepTally {
 public:
  void add(const StepShape& shape, int running);
  void clear() { entries_.clear(); }

  struct Time {
    double seconds = 0;          // of all steps
    double prefill_seconds = 0;  // of these, what is more than that of the decodes alone
    RunningCounts running = {};
  };
  Time time(const StepCosts& costs) const;

 private:
  struct Entry {
    int64_t num_steps = 0;
    double decode_keys = 0, prefill_keys = 0;  // of all these steps
  };
  // By the number of sequences that run, of decodes and of tokens of prompts.
  std::map<std::array<int, 3>, Entry> entries_;
};

}  // namespace pagedinfer
