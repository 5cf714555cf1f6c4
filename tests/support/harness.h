// Drives a scheduler and a pool with a device that the test provides. After each step it checks
// what must hold in every run: the rules of scheduling, the pool's accounts, and a bound on the
// number of steps that a request may take.
#pragma once

#include <cstdio>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kv/kv_pool.h"
#include "sched/batch_builder.h"
#include "sched/scheduler.h"
#include "tests/support/sanitized.h"

namespace pagedinfer {

struct Arrival {
  int step;
  Request request;  // identified by its random_key
};

// Computes a step, given the sequences of its chunks, and returns a token for each draw, in order.
// Throws StepFailed when it cannot. A token of the batch may be a placeholder.
using PlanSequences = std::span<const Sequence* const>;
using Device = std::function<std::vector<DrawnToken>(const StepPlan&, PlanSequences, const Batch&)>;
// Guesses the tokens that follow those of a decode.
using Drafter = std::function<std::vector<TokenId>(const Sequence&)>;
struct StepFailed {};

// A sample of a request, or what a beam search found: its random_key and the number of the sample.
using SampleId = std::pair<uint64_t, int>;

// The results of a run.
struct Outcome {
  std::map<SampleId, std::vector<TokenId>> answers;
  std::set<uint64_t> refused;  // requests that could never run, by random_key
  std::set<SampleId> failed;   // were in a step that failed
  // By random_key and position: what was drawn where the prompt's token was scored.
  std::map<std::pair<uint64_t, int>, TokenId> scores;
};

// How often something happened, so that a test can require that it did.
struct Counters {
  std::map<std::string, long> of;

  // Without sanitizers only: with them there are few runs, and what is rare need not happen.
  void print_and_require(std::initializer_list<const char*> names);
};

// Cache positions that the sequences of a plan hold and that have no token before the step. A
// device fills them with poison before it writes, so that a read of them shows.
std::vector<int32_t> unwritten_slots(const StepPlan& plan, PlanSequences sequences, int block_size);

// The pool's invariants and audit, and what leases cover, between two steps.
void check_books(const KvPool& pool, const Scheduler& scheduler);

// Whether a step is committed only after the next one is launched.
enum class Overlap : bool { kNo, kYes };

// Runs all arrivals to their end. A sequence ends with `stop` or at its max_tokens.
Outcome drive(KvPool& pool, const SchedulerLimits& limits, const std::vector<Arrival>& arrivals,
              TokenId stop, const Device& device, Counters& counters,
              Overlap overlap = Overlap::kNo, const Drafter& drafter = {});

}  // namespace pagedinfer
