// What the engine measures of steps and requests. Times are in seconds on the run's clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  double begin = 0, end = 0;  // before scheduling, and when finished requests are handed out
  StepTimes times = {};

  int num_tokens = 0;          // computed by the step, prefill and decode together
  int num_prefill_tokens = 0;  // of them, tokens of prompts or recomputed after a preemption
  int num_decodes = 0;         // of them, last tokens of running sequences
  int num_sampled = 0;         // tokens drawn
  int num_surplus = 0;         // of them, for sequences that had ended in the step before
  int running = 0, waiting = 0, admitted = 0, preempted = 0;  // sequences, when it was scheduled
  int failures = 0;                                           // failed attempts at the step

  int tokens_found = 0;  // not computed because they were in the cache
  int num_copies = 0;    // of blocks, or of reservations, for sequences that shared them

  // tokens_held <= positions_leased; leased, reusable and free ones are positions_total.
  int64_t positions_total = 0, positions_leased = 0, positions_reusable = 0;
  int64_t tokens_held = 0;      // positions that hold a token; shared ones count once
  int64_t tokens_served = 0;    // the same, shared ones once for each sequence
  int64_t positions_saved = 0;  // that sequences would hold more if none were shared
  int64_t blocks_used = 0;
  int64_t blocks_evicted = 0;        // so far in the run
  int64_t positions_contiguous = 0;  // that max-length reservations of the sequences would take
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
