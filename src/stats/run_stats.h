// What the engine measures of steps and requests. Times are in seconds on the run's clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/cache_use.h"
#include "core/request.h"

namespace pagedinfer {

// The engine thread's time in the phases of one step. The thread does one thing at a time, so the
// times of all steps add up to at most the duration of the run, even where steps overlap.
struct StepTimes {
  double plan = 0;     // scheduling
  double stage = 0;    // building the batch and copying it to the device
  double forward = 0;  // the forward pass; on an asynchronous device, launching it
  double sample = 0;   // sampling; on an asynchronous device, waiting for the tokens
  double commit = 0;   // detokenizing, stop strings, handing out finished requests
};

// One step. Steps begin and end in the same order; where they overlap, a step ends after the next
// one began.
struct StepStats {
  double begin = 0, end = 0;
  StepTimes times = {};
  // The rows in stats/statistics.cpp say what each number is.
  int64_t num_tokens = 0, num_prefill_tokens = 0, num_decodes = 0;
  int64_t num_sampled = 0, num_surplus = 0;
  int64_t running = 0, waiting = 0, admitted = 0, preempted = 0;
  int64_t tokens_found = 0, num_copies = 0;
  int failures = 0;  // failed attempts at the step
  KvStats pool = {};
  CacheUse cache = {};  // tokens_held <= pool.positions_leased
};

// One request that has completed or failed.
struct RequestStats {
  RecordHead head = {};
  ErrorCode error_code = {};  // empty: completed
  double admitted = 0, first_token = 0, finished = 0;
  std::vector<std::vector<double>> token_times = {};  // when each token was drawn, by sample
  int prompt_tokens = 0, completion_tokens = 0;
  int preemptions = 0;
  int recomputed_tokens = 0;  // because of preemptions
  int cached_tokens = 0;      // of the prompt, that were in the cache when they were first needed

  bool failed() const { return !error_code.empty(); }
};

}  // namespace pagedinfer
