#pragma once

#include <cstdint>

#include "core/request.h"
#include "sched/scheduler.h"

namespace pagedinfer {

// Upper bounds, in bytes, of the host memory that a run takes besides weights, cache and steps.
// They do not cover single lines of many megabytes, nor finished answers that wait for other
// answers of their line; see answer_bytes().
struct HostShare {
  int64_t tokenizer = 0;   // measured; already allocated when the plan is made
  int64_t threads = 0;     // that compute
  int64_t forms = 0;       // compiled forms, if lines ask for forms of answers
  int64_t read_ahead = 0;  // lines that were read but not yet submitted to the scheduler
  int64_t waiting = 0;     // submitted requests that do not run yet
  int64_t output = 0;      // records on their way to the files, and the places of records that wait
  int64_t per_token = 0;   // for each token of the cache: its id, time and text, and block tables

  // The memory that is not allocated yet, without per_token.
  int64_t to_come() const { return threads + forms + read_ahead + waiting + output; }
};

HostShare plan_host_share(const SchedulerLimits& limits, int block_size, int64_t tokenizer_bytes,
                          int64_t form_bytes);

// Upper bound of the bytes that a token's log probability takes until its line has ended, with
// `num_candidates` candidates; 0 if that is -1.
int64_t log_prob_bytes(int num_candidates);

// Upper bound of the bytes that a prompt's completions take when their line ends, if each has at
// most `max_new` tokens: once in memory and twice as text. Log probabilities take most of it.
int64_t answer_bytes(const Request& request, int max_new);

}  // namespace pagedinfer
