// What happened, as plain records: filled in by the engine, read by whoever prints. Times are
// seconds on the run's clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/request.h"

namespace pagedinfer {

// Where the time of one step went: what the engine itself was at. It does one thing at a time, so
// these add up to no more than the run, also where steps overlap.
struct StepTimes {
  double plan = 0;     // choosing what to compute
  double stage = 0;    // flattening it and copying it to the device
  double forward = 0;  // the model; where the device works by itself, asking for it
  double sample = 0;   // drawing the next tokens; waiting for a device that works by itself
  double commit = 0;   // text, stop strings, handing out what is finished
};

// Steps begin and end in the same order. Where they overlap one ends after the next began, and
// what the engine did for the next lies between its parts.
struct StepStats {
  double begin = 0, end = 0;  // before planning, and when what it finished is handed out
  StepTimes times = {};

  int num_tokens = 0;          // computed by the step, prefill and decode together
  int num_prefill_tokens = 0;  // of them, tokens of prompts (or of what is computed again)
  int num_decodes = 0;         // of them, last tokens of running sequences
  int num_sampled = 0;         // tokens drawn
  int num_surplus = 0;         // of them, for sequences that had ended in the step before
  int running = 0, waiting = 0, admitted = 0, preempted = 0;  // as it is planned
  int failures = 0;                                           // tries of the step that failed

  // tokens_held <= positions_leased <= positions_total.
  int64_t positions_total = 0, positions_leased = 0, tokens_held = 0;
  int64_t blocks_used = 0;
  int64_t positions_contiguous = 0;  // what reservations would hold for the same sequences
};

// One input line, answered.
struct RequestStats {
  RecordHead head = {};
  std::string error_code = {};  // "" = completed
  double admitted = 0, first_token = 0, finished = 0;
  std::vector<double> token_times = {};  // when each token of the completion was there
  int prompt_tokens = 0, completion_tokens = 0;
  int preemptions = 0;        // how often it lost its memory
  int recomputed_tokens = 0;  // computed again because of that

  bool failed() const { return !error_code.empty(); }
};

}  // namespace pagedinfer
