#pragma once

#include <cstdint>

#include "core/request.h"
#include "sched/scheduler.h"

namespace pagedinfer {

// Upper bounds, in bytes, of what a run takes of the host's memory beside weights, cache and steps.
// Out of the bounds are single lines of many megabytes and the answers that are kept until all of
// their line have ended, for which see answer_bytes().
struct HostShare {
  int64_t tokenizer = 0;   // measured; taken before the plan is made
  int64_t threads = 0;     // that compute
  int64_t forms = 0;       // compiled ones, where lines ask for a form of the answer
  int64_t read_ahead = 0;  // lines that are read and not yet given to the scheduler
  int64_t waiting = 0;     // requests of the scheduler that do not run
  int64_t output = 0;      // records on their way to the files, and where those are that must wait
  int64_t per_token = 0;   // of the cache: a sequence's tokens, times and text, and block tables

  // What is still to be taken, but for per_token.
  int64_t to_come() const { return threads + forms + read_ahead + waiting + output; }
};

HostShare plan_host_share(const SchedulerLimits& limits, int block_size, int64_t tokenizer_bytes,
                          int64_t form_bytes);

// Upper bound of the bytes that the log probability of a token takes until its line has ended,
// beside so many candidates; 0 where it is -1.
int64_t log_prob_bytes(int num_candidates);

// Upper bound of the bytes that the completions of a prompt take, of at most `max_new` tokens each,
// when its line ends: in memory, and twice in text. It counts log probabilities above all.
int64_t answer_bytes(const Request& request, int max_new);

}  // namespace pagedinfer
