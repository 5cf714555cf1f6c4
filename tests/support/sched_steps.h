#pragma once

#include <memory>
#include <utility>

#include "tests/support/harness.h"
#include "tests/support/plan_rules.h"
#include "tests/support/workload.h"

namespace pagedinfer {

// Drives a scheduler step by step: each row draws token 1, and a sequence ends at its max_tokens.
// Plans and the pool's accounts are checked in every step.
struct Steps {
  Steps(std::unique_ptr<KvPool> p, const SchedulerLimits& l)
      : pool(std::move(p)), limits(l), scheduler(*pool, limits) {}

  void submit(int num_prompt, int max_tokens) {
    scheduler.submit(make_request(next_index++, num_prompt, max_tokens));
  }

  StepPlan plan() {
    const std::set<int64_t> ran_before = ages_of(scheduler.running());
    StepPlan plan = scheduler.plan();
    build_batch(plan, pool->block_size(), batch);
    if (!plan.chunks.empty()) check_plan(plan, batch, {*pool, scheduler, limits, ran_before});
    return plan;
  }

  void advance(const StepPlan& plan) {
    scheduler.advance(plan);
    check_books(*pool, scheduler);
  }

  // Those of `stopped` end with their token.
  std::vector<Sequence> commit(const StepPlan& plan, const std::set<int64_t>& stopped = {}) {
    std::vector<Scheduler::Sampled> sampled;
    for (const Chunk& chunk : plan.chunks) {
      if (!chunk.completes) continue;
      sampled.push_back({.token = 1});
      const Sequence* const seq = scheduler.find(chunk.age);
      if (seq == nullptr) continue;
      if (stopped.contains(chunk.age)) {
        sampled.back().finished = FinishReason::kStop;
      } else if (seq->num_known() == seq->max_tokens) {
        sampled.back().finished = FinishReason::kLength;
      }
    }
    std::vector<Sequence> finished = scheduler.commit(plan, sampled);
    check_books(*pool, scheduler);
    return finished;
  }

  std::vector<Sequence> finish(const StepPlan& plan) {
    advance(plan);
    return commit(plan);
  }

  // What is returned may be counted, but its sequences may be gone.
  StepPlan step() {
    StepPlan planned = plan();
    finish(planned);
    return planned;
  }

  std::unique_ptr<KvPool> pool;
  SchedulerLimits limits;
  Scheduler scheduler;
  Batch batch = {};
  int next_index = 0;
};

}  // namespace pagedinfer
