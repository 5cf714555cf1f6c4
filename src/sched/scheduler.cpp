#include "sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/check.h"

namespace pagedinfer {

Scheduler::Scheduler(KvPool& pool, const SchedulerLimits& limits)
    : pool_(pool),
      limits_(limits),
      reserve_(static_cast<int>(limits.admission_reserve *
                                static_cast<double>(pool.stats().positions_total))) {
  CHECK(limits.prefill_chunk_size > 0 && limits.max_prefill_chunks > 0);
  CHECK(limits.max_running > 0 && limits.max_waiting > 0 && limits.max_model_len > 0);
  CHECK(limits.admission_reserve >= 0.0 && limits.admission_reserve <= 1.0);
  // So that decodes always fit a step, and a prompt gets something in each.
  const int64_t prompt = limits.chunked_prefill ? 0 : limits.max_model_len;
  CHECK(limits.max_step_tokens >= limits.max_running + prompt);
}

std::optional<RequestError> Scheduler::refusal(int64_t num_prompt, int64_t max_tokens) const {
  if (num_prompt == 0) {
    return RequestError{"empty_prompt", "the prompt has no tokens, expected at least 1"};
  }
  if (num_prompt >= limits_.max_model_len) {
    return RequestError{"prompt_too_long",
                        fmt::format("the prompt has {} tokens, expected at most {} (one less than "
                                    "the longest sequence)",
                                    num_prompt, limits_.max_model_len - 1)};
  }
  // The last token is delivered and never computed.
  const int64_t needed = bound_on_tokens(num_prompt, max_tokens, limits_.max_model_len) - 1;
  const int64_t total = pool_.stats().positions_total;
  if (needed > total) {
    return RequestError{
        "exceeds_cache",
        fmt::format("{} prompt tokens and up to {} completion tokens need {} cache positions, "
                    "and the whole cache has {}",
                    num_prompt, needed + 1 - num_prompt, needed, total)};
  }
  return std::nullopt;
}

int64_t Scheduler::submit(Request request) {
  const int max_tokens = request.sampling.max_tokens;
  CHECK(max_tokens > 0 && !refusal(static_cast<int64_t>(request.prompt.size()), max_tokens));
  const int64_t age = next_age_++;
  waiting_.emplace_hint(waiting_.end(), age,
                        Sequence(std::move(request), age, limits_.max_model_len));
  return age;
}

StepPlan Scheduler::plan() {
  StepPlan plan;
  plan.chunks.reserve(running_.size() + 1);
  serve_decodes(plan);
  continue_prompts(plan);
  if (plan.num_preempted == 0) admit(plan);
  return plan;
}

void Scheduler::serve_decodes(StepPlan& plan) {
  for (auto it = running_.begin(); it != running_.end(); ++it) {
    Sequence& seq = it->second;
    if (!seq.is_decoding()) continue;
    while (!pool_.grow(seq.lease, seq.num_computed, seq.num_known())) {
      CHECK(running_.size() > 1);  // by refusal() the pool holds any sequence alone
      const bool is_youngest = std::next(it) == running_.end();
      preempt_youngest();
      ++plan.num_preempted;
      if (is_youngest) return;
    }
    plan.add(seq, 1);
    ++plan.num_decodes;
  }
}

void Scheduler::continue_prompts(StepPlan& plan) {
  for (auto& [age, seq] : running_) {
    if (seq.is_decoding()) continue;
    const int count = next_chunk(plan, seq.num_pending());
    if (count == 0) return;
    plan.add(seq, count);
  }
}

// First come, first served: a sequence that does not fit blocks those behind it. In continuous
// batching a sequence is admitted in the step that computes its first chunk: earlier it would hold
// blocks without using them.
void Scheduler::admit(StepPlan& plan) {
  const bool is_static = limits_.batching == Batching::kStatic;
  if (is_static && (!running_.empty() || !(window_full() || input_ended_))) return;

  while (!waiting_.empty() && num_running() < limits_.max_running) {
    Sequence& seq = waiting_.begin()->second;
    const int count = next_chunk(plan, seq.num_known());
    if (count == 0 && !is_static) return;
    const bool alone = running_.empty();  // then nothing grows into the reserve
    std::optional<KvLease> lease = pool_.open(seq.tokens, alone ? 0 : reserve_);
    CHECK(lease || !alone);  // by refusal()
    if (!lease) return;

    seq.lease = std::move(*lease);
    running_.insert(waiting_.extract(waiting_.begin()));
    ++plan.num_admitted;
    if (count > 0) plan.add(seq, count);
  }
}

// How much of a prompt fits in what the plan leaves of the step.
int Scheduler::next_chunk(const StepPlan& plan, int num_pending) const {
  if (plan.num_prefills() == limits_.max_prefill_chunks) return 0;
  const int budget = limits_.max_step_tokens - plan.num_tokens;
  if (!limits_.chunked_prefill) return num_pending <= budget ? num_pending : 0;
  return std::min({num_pending, limits_.prefill_chunk_size, budget});
}

void Scheduler::preempt_youngest() {
  auto youngest = running_.extract(std::prev(running_.end()));
  Sequence& seq = youngest.mapped();
  pool_.close(seq.lease);
  ++seq.num_preemptions;
  seq.num_recomputed += seq.num_computed;
  seq.num_computed = 0;
  waiting_.insert(std::move(youngest));
}

void Scheduler::advance(const StepPlan& plan) {
  TokenId placeholder = 0;
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.completes) --placeholder;
    const auto it = running_.find(chunk.age);
    if (it == running_.end()) continue;
    Sequence& seq = it->second;
    CHECK(seq.num_computed == chunk.start && seq.tokens.back() >= 0);
    seq.num_computed += chunk.count;
    if (!chunk.completes) continue;
    seq.tokens.push_back(placeholder);
    if (seq.num_known() < seq.max_tokens) continue;
    pool_.close(seq.lease);
    leaving_.insert(running_.extract(it));
  }
}

std::vector<Sequence> Scheduler::commit(const StepPlan& plan, std::span<const Sampled> sampled) {
  std::vector<Sequence> finished;
  TokenId placeholder = 0;
  for (const Chunk& chunk : plan.chunks) {
    if (!chunk.completes) continue;
    --placeholder;
    CHECK(!sampled.empty());
    const Sampled& drawn = sampled.front();
    sampled = sampled.subspan(1);
    ByAge* const queue = queue_of(chunk.age);
    if (queue == nullptr) continue;
    Sequence& seq = queue->at(chunk.age);
    CHECK(seq.tokens.back() == placeholder);
    seq.tokens.back() = drawn.token;
    seq.finished = drawn.finished;
    CHECK(seq.finished || queue != &leaving_);
    // What its last preemption lost, all but the last token, is not computed again.
    if (seq.finished && queue == &waiting_) seq.num_recomputed -= seq.num_known() - 1;
    if (seq.finished) finished.push_back(*extract(chunk.age));
  }
  CHECK(sampled.empty());
  return finished;
}

void Scheduler::erase_finished(StepPlan& plan) const {
  StepPlan left = {.num_admitted = plan.num_admitted, .num_preempted = plan.num_preempted};
  for (int i = 0; i < static_cast<int>(plan.chunks.size()); ++i) {
    const Chunk& chunk = plan.chunks[i];
    if (find(chunk.age) == nullptr) continue;
    left.chunks.push_back(chunk);
    left.num_tokens += chunk.count;
    left.num_decodes += i < plan.num_decodes;
  }
  plan = std::move(left);
}

std::vector<Sequence> Scheduler::abort(const StepPlan& plan) {
  std::vector<Sequence> aborted;
  for (const Chunk& chunk : plan.chunks) {
    if (std::optional<Sequence> seq = extract(chunk.age)) aborted.push_back(std::move(*seq));
  }
  return aborted;
}

Scheduler::ByAge* Scheduler::queue_of(int64_t age) {
  for (ByAge* const queue : {&running_, &leaving_, &waiting_}) {
    if (queue->contains(age)) return queue;
  }
  return nullptr;
}

const Sequence* Scheduler::find(int64_t age) const {
  for (const ByAge* const queue : {&running_, &leaving_, &waiting_}) {
    if (const auto it = queue->find(age); it != queue->end()) return &it->second;
  }
  return nullptr;
}

std::optional<Sequence> Scheduler::extract(int64_t age) {
  ByAge* const queue = queue_of(age);
  if (queue == nullptr) return std::nullopt;
  auto node = queue->extract(age);
  pool_.close(node.mapped().lease);
  return std::move(node.mapped());
}

void Scheduler::clear() {
  for (auto& [age, seq] : running_) pool_.close(seq.lease);
  running_.clear();
  waiting_.clear();
  leaving_.clear();
}

CacheUse Scheduler::cache_use() const {
  CacheUse use = {.positions_leased = pool_.stats().positions_leased,
                  .positions_contiguous = int64_t{num_running()} * limits_.max_model_len};
  for (const auto& [age, seq] : running_) use.tokens_held += seq.num_computed;
  return use;
}

}  // namespace pagedinfer
