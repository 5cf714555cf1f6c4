#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "commands/plan/request_sample.h"
#include "load/run_plan.h"

namespace pagedinfer {

// How many sequences ran in each step.
class RunningCounts {
 public:
  void add(int running);
  double mean() const;
  // The smallest count that at least `percent` of the steps did not exceed.
  int percentile(double percent) const;
  int max() const { return static_cast<int>(num_steps_.size()) - 1; }

 private:
  std::vector<int64_t> num_steps_ = {0};  // indexed by the number of sequences
};

// Totals over the steps of a rehearsed run.
struct Rehearsal {
  int64_t num_requests = 0;                   // that were rehearsed, from the first on
  int64_t prompt_tokens = 0, new_tokens = 0;  // of these requests
  int64_t num_steps = 0, num_preemptions = 0;
  int64_t num_cached = 0;  // prompt tokens that were in the cache when they were first needed
  RunningCounts running = {};
  int64_t max_positions = 0;  // leased at once
  int64_t num_evicted = 0;    // cached blocks that were evicted for others
};

struct RehearsedRun {
  const RunPlan& plan;
  std::optional<int> max_new = {};            // no completion has more tokens
  int64_t max_tokens = 32'000'000;            // of the completions that are rehearsed
  std::function<void()> before_step = [] {};  // may throw to end the rehearsal
};

// Runs the requests through the run's scheduler and a pool of the plan's size, without a model. All
// requests arrive at once, and completions have their maximum length. Stops after the line that
// raises the sum of completion tokens above max_tokens.
Rehearsal rehearse(std::span<const SampledRequest> requests, const RehearsedRun& run);

}  // namespace pagedinfer
