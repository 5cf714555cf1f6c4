// The rules that every plan of a scheduler must obey.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "core/batch.h"
#include "kv/kv_pool.h"
#include "sched/scheduler.h"

namespace pagedinfer {

// The sequences of all groups, oldest first.
std::vector<const Sequence*> sequences_of(const GroupQueue& queue);

// A sequence: its age and its sample.
using SequenceId = std::pair<int64_t, int>;
inline SequenceId id_of(const Sequence& seq) { return {seq.age, seq.sample}; }
std::set<SequenceId> ids_of(const GroupQueue& queue);

std::set<int64_t> ages_of(const GroupQueue& queue);

struct PlanContext {
  KvPool& pool;
  const Scheduler& scheduler;  // after plan()
  const SchedulerLimits& limits;
  const std::set<SequenceId>& ran_before;  // what ran before plan()
};

// Fails the running test case if `plan`, flattened as `batch`, breaks a rule. REQUIRES: the plan
// is not empty and not advanced.
void check_plan(const StepPlan& plan, const Batch& batch, const PlanContext& context);

}  // namespace pagedinfer
