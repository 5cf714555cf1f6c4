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
using SequenceId = std::pair<Age, int>;
inline SequenceId id_of(const Sequence& seq) { return {seq.age, seq.sample}; }
std::set<SequenceId> ids_of(const GroupQueue& queue);

using Ages = std::set<Age>;
Ages ages_of(const GroupQueue& queue);
// The ages of these requests, each of which has one sample; of these samples of the first request.
Ages requests(std::initializer_list<int64_t> numbers);
Ages samples(std::initializer_list<int> numbers);

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
