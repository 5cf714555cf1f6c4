#pragma once

#include <deque>
#include <memory>
#include <utility>

#include "kv/contiguous_pool.h"
#include "tests/support/harness.h"
#include "tests/support/plan_rules.h"
#include "tests/support/workload.h"

namespace pagedinfer {

// Drives a scheduler step by step: each row draws token 1, and a sequence ends at its max_tokens.
// Plans and the pool's accounts are checked in every step.
struct Steps {
  Steps(std::unique_ptr<KvPool> p, const SchedulerLimits& l)
      : pool(std::move(p)), limits(l), scheduler(*pool, limits) {}

  // Returns the age.
  Age submit(int num_prompt, int max_tokens, int num_samples = 1) {
    const auto index = std::ssize(requests);
    requests.push_back(make_request(index, num_prompt, max_tokens));
    requests.back().num_samples = num_samples;
    return scheduler.submit(requests.back());
  }

  // A sequence that is no beam.
  const Sequence& running(int64_t request, int sample = 0) const {
    return scheduler.running().at({request, sample}).members.at(0);
  }
  const Sequence& waiting(int64_t request, int sample = 0) const {
    return scheduler.waiting().at({request, sample}).members.at(0);
  }

  StepPlan plan() {
    const std::set<SequenceId> ran_before = ids_of(scheduler.running());
    StepPlan plan = scheduler.plan();
    build_batch(plan, scheduler.sequences_of(plan), pool->block_size(), batch);
    if (!plan.chunks.empty()) check_plan(plan, batch, {*pool, scheduler, limits, ran_before});
    return plan;
  }

  void advance(const StepPlan& plan) {
    scheduler.advance(plan);
    check_books(*pool, scheduler);
  }

  // `tokens` for the plan's draws. Those of `stopped` end with theirs.
  Scheduler::Committed commit_tokens(const StepPlan& plan, const std::vector<TokenId>& tokens,
                                     const Ages& stopped = {}) {
    std::vector<DrawnToken> drawn;
    for (const TokenId token : tokens) drawn.push_back({.token = token});
    Scheduler::Committed committed = scheduler.commit(
        plan, drawn, [&](const Sequence& seq, const DrawnToken&) -> std::optional<FinishReason> {
          if (stopped.contains(seq.age)) return FinishReason::kStop;
          if (seq.num_known() == seq.max_tokens) return FinishReason::kLength;
          return std::nullopt;
        });
    check_books(*pool, scheduler);
    return committed;
  }

  std::vector<Sequence> commit(const StepPlan& plan, const Ages& stopped = {}) {
    return commit_tokens(plan, std::vector<TokenId>(plan.draws.size(), 1), stopped).finished;
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
  std::deque<Request> requests = {};
};

// Static batches of up to 4 requests, in a pool of 8 reservations of 32 positions. Prompts are
// computed whole, 36 tokens in a step.
inline Steps static_steps(int max_waiting) {
  return {std::make_unique<ContiguousPool>(32 * 8, 32),
          {.batching = Batching::kStatic,
           .chunked_prefill = false,
           .max_step_tokens = 36,
           .max_running = 4,
           .max_waiting = max_waiting,
           .max_model_len = 32}};
}

}  // namespace pagedinfer
