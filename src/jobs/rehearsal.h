#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/run_plan.h"
#include "jobs/request_sample.h"
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

// What the steps of a run come to.
struct Rehearsal {
  int64_t num_requests = 0;  // of those given, from the first on: those that were rehearsed
  int64_t prompt_tokens = 0, new_tokens = 0;  // of these requests
  int64_t num_steps = 0, num_preemptions = 0, num_recomputed = 0;
  int64_t num_found = 0;       // tokens of prompts that were in the cache
  double seconds = 0;          // of all steps
  double prefill_seconds = 0;  // of these, what is more than that of the decodes alone
  // The steps after the last request was admitted, and the tokens that they compute and draw.
  struct Tail {
    double seconds = 0;
    int64_t prompt_tokens = 0, new_tokens = 0;
  };
  Tail tail = {};
  int64_t max_positions = 0;  // leased at once
  int64_t num_evicted = 0;    // blocks that could be found and made room for others
  RunningCounts running = {};
};

struct RehearsedRun {
  const RunPlan& plan;
  const StepCosts& costs;
  const AttendedKeys& keys;
  std::optional<int> max_new = {};  // no completion has more tokens
  int64_t max_tokens = 4'000'000;   // of the completions that are rehearsed
};

// Plays the requests, as if all were there from the beginning, through the run's scheduler and a
// pool of the plan's size, without a model: completions are as long as they may be. Stops with the
// request that makes them longer than max_tokens in sum.
Rehearsal rehearse(std::span<const SampledRequest> requests, const RehearsedRun& run);

// The seconds of a run of `prompt_tokens` and `new_tokens`, of which some were rehearsed: the steps
// before the last ones take as much longer as there are more tokens.
double scaled_seconds(const Rehearsal& rehearsal, int64_t prompt_tokens, int64_t new_tokens);

}  // namespace pagedinfer
