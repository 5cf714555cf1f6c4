// The rules that every plan of a scheduler must obey.
#pragma once

#include <set>

#include "core/batch.h"
#include "kv/kv_pool.h"
#include "sched/scheduler.h"

namespace pagedinfer {

std::set<int64_t> ages_of(const Scheduler::ByAge& sequences);

struct PlanContext {
  KvPool& pool;
  const Scheduler& scheduler;  // after plan()
  const SchedulerLimits& limits;
  const std::set<int64_t>& ran_before;  // ages of what ran before plan()
};

// Fails the running test case if `plan`, flattened as `batch`, breaks a rule. REQUIRES: the plan
// is not empty and not advanced.
void check_plan(const StepPlan& plan, const Batch& batch, const PlanContext& context);

}  // namespace pagedinfer
