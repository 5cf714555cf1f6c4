// Drives a scheduler and a pool with a device that the test provides. After each step it checks
// what must hold in every run: the rules of scheduling, the pool's accounts, and a bound on the
// number of steps that a request may take.
#pragma once

#include <cstdio>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kv/kv_pool.h"
#include "sched/batch_builder.h"
#include "sched/scheduler.h"
#include "tests/support/sanitized.h"

namespace pagedinfer {

struct Arrival {
  int step;
  Request request;  // identified by its head.index
};

// Computes a step and returns a token for each chunk that completes, in order. Throws
// StepFailed when it cannot. A token of the batch may stand for one that the device drew in the
// step before (Ops::sample() says how).
using Device = std::function<std::vector<TokenId>(const StepPlan&, const Batch&)>;
struct StepFailed {};

// The results of a run, by head.index.
struct Outcome {
  std::map<int64_t, std::vector<TokenId>> answers;
  std::set<int64_t> refused;  // could never run
  std::set<int64_t> failed;   // were in a step that failed
};

// How often something happened, so that a test can require that it did.
struct Counters {
  std::map<std::string, long> of;

  void print_and_require(std::initializer_list<const char*> names);
};

// Cache positions that the sequences of a plan hold and that have no token before the step. A
// device fills them with poison before it writes, so that a read of them shows.
std::vector<int32_t> unwritten_slots(const StepPlan& plan, int block_size);

// The pool's invariants and audit, and what leases cover, between two steps.
void check_books(const KvPool& pool, const Scheduler& scheduler);

// Whether a step is committed only after the next one is launched.
enum class Overlap : bool { kNo, kYes };

// Runs all arrivals to their end. A sequence ends with `stop` or at its max_tokens.
Outcome drive(KvPool& pool, const SchedulerLimits& limits, const std::vector<Arrival>& arrivals,
              TokenId stop, const Device& device, Counters& counters,
              Overlap overlap = Overlap::kNo);

}  // namespace pagedinfer
