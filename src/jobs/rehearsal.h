#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "engine/run_plan.h"
#include "jobs/request_sample.h"
#include "jobs/step_costs.h"
#include "jobs/step_tally.h"

namespace pagedinfer {

// What the steps of a run come to.
struct Rehearsal {
  int64_t num_requests = 0;  // of those given, from the first on: those that were rehearsed
  int64_t prompt_tokens = 0, new_tokens = 0;  // of these requests
  int64_t num_steps = 0, num_preemptions = 0, num_recomputed = 0;
  int64_t num_found = 0;  // tokens of prompts that were in the cache
  StepTally steps = {};
  // The steps after the last request was admitted, and the tokens that they compute and draw.
  struct Tail {
    StepTally steps = {};
    int64_t prompt_tokens = 0, new_tokens = 0;
  };
  Tail tail = {};
  int64_t max_positions = 0;  // leased at once
  int64_t num_evicted = 0;    // blocks that could be found and made room for others
};

struct RehearsedRun {
  const RunPlan& plan;
  const AttendedKeys& keys;
  std::optional<int> max_new = {};            // no completion has more tokens
  int64_t max_tokens = 32'000'000;            // of the completions that are rehearsed
  std::function<void()> before_step = [] {};  // may throw to end the rehearsal
};

// Plays the requests, as if all were there from the beginning, through the run's scheduler and a
// pool of the plan's size, without a model: completions are as long as they may be. Stops with the
// request that makes them longer than max_tokens in sum.
Rehearsal rehearse(std::span<const SampledRequest> requests, const RehearsedRun& run);

// The seconds of a run of `prompt_tokens` and `new_tokens`, of which some were rehearsed: the steps
// before the last ones take as much longer as there are more tokens.
double scaled_seconds(const Rehearsal& rehearsal, const StepCosts& costs, int64_t prompt_tokens,
                      int64_t new_tokens);

}  // namespace pagedinfer
