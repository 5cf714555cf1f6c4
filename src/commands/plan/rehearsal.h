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
  int percentile(double percent) const;  // the smallest that was enough for that share of the steps
  int max() const { return static_cast<int>(num_steps_.size()) - 1; }

 private:
  std::vector<int64_t> num_steps_ = {0};  // by the number of sequences
};

// What the steps of a run come to.
struct Rehearsal {
  int64_t num_requests = 0;  // of those given, from the first on: those that were rehearsed
  int64_t prompt_tokens = 0, new_tokens = 0;  // of these requests
  int64_t num_steps = 0, num_preemptions = 0;
  int64_t num_cached = 0;  // tokens of prompts that were in the cache when they were first needed
  RunningCounts running = {};
  int64_t max_positions = 0;  // leased at once
  int64_t num_evicted = 0;    // blocks that could be found and made room for others
};

struct RehearsedRun {
  const RunPlan& plan;
  std::optional<int> max_new = {};            // no completion has more tokens
  int64_t max_tokens = 32'000'000;            // of the completions that are rehearsed
  std::function<void()> before_step = [] {};  // may throw to end the rehearsal
};

// Plays the requests, as if all were there from the beginning, through the run's scheduler and a
// pool of the plan's size, without a model: completions are as long as they may be. Stops with the
// request that makes them longer than max_tokens in sum.
Rehearsal rehearse(std::span<const SampledRequest> requests, const RehearsedRun& run);

}  // namespace pagedinfer
