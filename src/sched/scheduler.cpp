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
      max_draws_(std::max(limits.max_running, kMaxSamples)),
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

int64_t Scheduler::submit(const Request& request) {
  const int max_tokens = request.sampling.max_tokens;
  const auto num_prompt = static_cast<int64_t>(request.prompt.size());
  CHECK(max_tokens > 0 || (request.num_prompt_candidates() >= 0 && num_prompt > 1));
  CHECK(!refusal(num_prompt, max_tokens));
  CHECK(request.num_samples > 0);
  const int64_t age = next_age_;
  next_age_ += request.num_samples;
  waiting_.emplace_hint(waiting_.end(), age, Sequence(request, age, limits_.max_model_len));
  return age;
}

bool Scheduler::may_wait_for_input() const {
  const bool batch_is_filling = limits_.batching == Batching::kStatic && !window_full();
  return running_.empty() && !input_ended_ && (waiting_.empty() || batch_is_filling);
}

void Scheduler::draft(int64_t age, std::span<const TokenId> tokens) {
  Sequence& seq = running_.at(age);
  CHECK(seq.is_decoding() && seq.tokens.back() >= 0 && seq.num_drafted == 0);
  CHECK(seq.num_known() + std::ssize(tokens) < seq.max_tokens);
  seq.tokens.insert(seq.tokens.end(), tokens.begin(), tokens.end());
  seq.num_drafted = static_cast<int>(tokens.size());
}

StepPlan Scheduler::plan() {
  CHECK(!must_commit_);
  StepPlan plan;
  plan.chunks.reserve(running_.size() + 1);
  plan.draws.reserve(running_.size() + 1);
  serve_decodes(plan);
  continue_prompts(plan);
  if (plan.num_preempted == 0) admit(plan);

  plan.copies = std::exchange(fork_copies_, {});
  const std::vector<KvCopy> copies = pool_.take_copies();
  plan.copies.insert(plan.copies.end(), copies.begin(), copies.end());
  if (plan.chunks.empty()) plan.copies.clear();  // no sequence runs that could need them
  return plan;
}

void Scheduler::serve_decodes(StepPlan& plan) {
  // Guessed tokens take what is left when each sequence that may run has one, and a prompt its own.
  const int prompt = limits_.chunked_prefill ? 0 : limits_.max_model_len;
  int draft_budget = limits_.max_step_tokens - limits_.max_running - prompt;
  for (auto it = running_.begin(); it != running_.end(); ++it) {
    Sequence& seq = it->second;
    if (!seq.is_decoding()) continue;
    cut_drafts(seq, draft_budget);
    while (!pool_.grow(seq.lease, seq.num_computed, seq.num_known())) {
      CHECK(running_.size() > 1);  // by refusal() the pool holds any sequence alone
      const bool is_youngest = std::next(it) == running_.end();
      preempt_youngest();
      ++plan.num_preempted;
      if (is_youngest) return;
    }
    draft_budget -= seq.num_drafted;
    plan.add_decode(seq);
    seq.num_in_step = 1 + seq.num_drafted;
  }
}

// No sequence is preempted for guessed tokens.
void Scheduler::cut_drafts(Sequence& seq, int budget) {
  const int excess = seq.num_drafted - budget;
  if (excess > 0) {
    seq.tokens.resize(seq.tokens.size() - static_cast<size_t>(excess));
    seq.num_drafted -= excess;
  }
  if (seq.num_drafted == 0) return;
  const int end = static_cast<int>(seq.tokens.size());
  if (!pool_.grow(seq.lease, seq.num_computed, end)) seq.drop_drafts();
}

void Scheduler::continue_prompts(StepPlan& plan) {
  const int max_scores = max_draws_ - num_samples_running();
  for (auto& [age, seq] : running_) {
    if (seq.is_decoding()) continue;
    const int num_findable = pool_.num_findable(seq.lease, seq.tokens);
    int count = next_chunk(plan, seq.num_pending_after(num_findable));
    if (count == 0) return;
    count = cut_scores(seq, count, max_scores - plan.num_scores);
    if (num_findable > seq.num_computed) {
      pool_.adopt(seq.lease, seq.tokens);
      plan.num_found += seq.skip_cached();
    }
    add_prefill(seq, count, plan);
  }
}

// Of what runs, samples that are not forked yet included.
int Scheduler::num_samples_running() const {
  int num_samples = 0;
  for (const auto& [age, seq] : running_) num_samples += seq.num_samples();
  return num_samples;
}

// The longest chunk of at most `count` tokens that scores at most `max_scores`. A chunk of one
// token is always allowed: it draws or scores one, and its sequence may draw one in each step.
int Scheduler::cut_scores(const Sequence& seq, int count, int max_scores) const {
  while (count > 1 && seq.num_scores(count) > max_scores) --count;
  return count;
}

// What the chunk computes can be found from now on.
void Scheduler::add_prefill(Sequence& seq, int count, StepPlan& plan) {
  plan.add_prefill(seq, count);
  seq.num_in_step = count;
  const bool has_placeholder = seq.tokens.back() < 0;
  const int end = std::min(seq.num_computed + count, seq.num_known() - has_placeholder);
  pool_.publish(seq.lease, std::span(seq.tokens).first(end), plan.published);
}

// Samples of a request share what they have in common in any case: one that was preempted finds it
// again as long as another one runs, so that it takes no more room than before.
ShareScope Scheduler::scope_of(const Sequence& seq) const {
  // What is found is not scored.
  if (limits_.prefix_cache && !seq.scores_prompt()) return kShareAll;
  return seq.request->num_samples > 1 ? seq.age - seq.sample + 1 : kShareNone;
}

// First come, first served: a sequence that does not fit blocks those behind it. In continuous
// batching a sequence is admitted in the step that computes its first chunk: earlier it would hold
// blocks without using them.
void Scheduler::admit(StepPlan& plan) {
  const bool is_static = limits_.batching == Batching::kStatic;
  if (is_static && (!running_.empty() || !(window_full() || input_ended_))) return;

  int num_samples = num_samples_running();
  while (!waiting_.empty()) {
    Sequence& seq = waiting_.begin()->second;
    const bool alone = running_.empty();  // then nothing grows into the reserve
    num_samples += seq.num_samples();
    if (num_samples > limits_.max_running && !alone) return;
    if (num_samples + plan.num_scores > max_draws_) return;
    seq.lease.scope = scope_of(seq);
    const int num_findable = pool_.num_findable(seq.lease, seq.tokens);
    int count = next_chunk(plan, seq.num_pending_after(num_findable));
    if (count == 0 && !is_static) return;
    count = cut_scores(seq, count, max_draws_ - num_samples - plan.num_scores);
    // The step that fills a found block may fail; then all that hold it must be a part of the step.
    const ShareScope scope = count > 0 ? seq.lease.scope : kShareNone;
    const auto wanted = std::span(seq.tokens).first(seq.num_wanted());
    std::optional<KvLease> lease = pool_.open(wanted, alone ? 0 : reserve_, scope);
    CHECK(lease || !alone);  // by refusal()
    if (!lease) return;

    seq.lease = std::move(*lease);
    plan.num_found += seq.skip_cached();
    running_.insert(waiting_.extract(waiting_.begin()));
    ++plan.num_admitted;
    if (count > 0) add_prefill(seq, count, plan);
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
  seq.drop_drafts();
  ++seq.num_preemptions;
  seq.num_computed = 0;
  waiting_.insert(std::move(youngest));
}

void Scheduler::advance(const StepPlan& plan) {
  for (const Chunk& chunk : plan.chunks) {
    const auto it = running_.find(chunk.age);
    if (it == running_.end()) continue;
    Sequence& seq = it->second;
    CHECK(seq.num_computed == chunk.start && seq.tokens.back() >= 0);
    seq.num_in_step = 0;
    if (!chunk.verifies()) seq.advance(chunk.count);
    seq.num_scored += chunk.num_scores;
    if (!seq.draws() && seq.num_pending() == 0) {
      pool_.close(seq.lease);
      leaving_.insert(running_.extract(it));
    }
  }
  must_commit_ = !plan.may_overlap;
  for (size_t row = 0; row < plan.draws.size(); ++row) {
    const Draw& draw = plan.draws[row];
    const Chunk& chunk = plan.chunks[draw.chunk];
    const ByAge* const queue = queue_of(chunk.age);
    if (queue == nullptr || chunk.verifies() || draw.scores) continue;
    const TokenId placeholder = -1 - static_cast<TokenId>(row);
    if (draw.age != chunk.age) {
      fork_sample(queue->at(chunk.age), draw.age, placeholder);
    } else {
      append(running_.find(draw.age), placeholder);
    }
  }
  fork_copies_ = pool_.take_copies();
}

void Scheduler::append(ByAge::iterator it, TokenId placeholder) {
  Sequence& seq = it->second;
  seq.tokens.push_back(placeholder);
  if (seq.num_known() < seq.max_tokens) return;
  pool_.close(seq.lease);
  leaving_.insert(running_.extract(it));
}

void Scheduler::fork_sample(const Sequence& parent, int64_t age, TokenId placeholder) {
  Sequence child(*parent.request, age, limits_.max_model_len);
  child.sample = static_cast<int>(age - parent.age);
  child.tokens.push_back(placeholder);
  const bool leaves = child.num_known() == child.max_tokens;
  std::optional<KvLease> lease;
  if (!leaves && num_running() < limits_.max_running) {
    lease = pool_.fork(parent.lease, parent.num_computed);
  }
  if (lease) child.lease = std::move(*lease);
  if (leaves || lease) child.num_computed = parent.num_computed;
  child.max_computed = parent.num_computed;
  child.num_scored = parent.num_scored;
  ByAge& queue = leaves ? leaving_ : lease ? running_ : waiting_;
  queue.emplace(age, std::move(child));
}

Scheduler::Committed Scheduler::commit(const StepPlan& plan, std::span<const DrawnToken> drawn,
                                       const EndOf& end_of) {
  CHECK(drawn.size() == plan.draws.size());
  must_commit_ = false;
  Committed result;
  int wrong_chunk = -1;  // guessed wrong: its later draws follow tokens that are not the sequence's
  for (size_t row = 0; row < drawn.size(); ++row) {
    const Draw& draw = plan.draws[row];
    if (draw.scores) continue;
    ByAge* const queue = queue_of(draw.age);
    if (queue == nullptr || draw.chunk == wrong_chunk) {
      ++result.num_surplus;
      continue;
    }
    Sequence& seq = queue->at(draw.age);
    const TokenId latest = seq.tokens.back();
    CHECK(latest >= 0 || latest == -1 - static_cast<TokenId>(row));
    if (!take_token(seq, draw, drawn[row].token)) wrong_chunk = draw.chunk;
    seq.finished = end_of(seq, drawn[row]);
    CHECK(seq.finished || seq.num_known() < seq.max_tokens);
    if (seq.finished) result.finished.push_back(*extract(draw.age));
  }
  for (const Chunk& chunk : plan.chunks) {
    if (const auto it = leaving_.find(chunk.age); it != leaving_.end() && !it->second.draws()) {
      it->second.finished = FinishReason::kLength;
      result.finished.push_back(*extract(chunk.age));
    }
    const auto it = running_.find(chunk.age);
    if (it == running_.end()) continue;
    Sequence& seq = it->second;
    std::vector<PublishedBlock> published;  // filled by a step that has not failed
    pool_.publish(seq.lease, std::span(seq.tokens).first(seq.num_computed), published);
  }
  return result;
}

// False if another token was guessed.
bool Scheduler::take_token(Sequence& seq, const Draw& draw, TokenId token) {
  if (seq.tokens.back() < 0) {
    CHECK(seq.num_known() == draw.position + 1);
    seq.tokens.back() = token;
    return true;
  }
  CHECK(seq.num_known() == draw.position);
  seq.advance(1);
  if (seq.num_drafted == 0) {
    seq.tokens.push_back(token);
    return true;
  }
  const TokenId guess = std::exchange(seq.tokens[draw.position], token);
  --seq.num_drafted;
  if (guess == token) return true;
  seq.drop_drafts();
  return false;
}

void Scheduler::erase_finished(StepPlan& plan) const {
  StepPlan left = {.copies = std::move(plan.copies),
                   .num_admitted = plan.num_admitted,
                   .num_preempted = plan.num_preempted,
                   .num_found = plan.num_found,
                   .published = std::move(plan.published)};
  for (int i = 0; i < static_cast<int>(plan.chunks.size()); ++i) {
    const Chunk& chunk = plan.chunks[i];
    if (find(chunk.age) != nullptr) left.add(chunk, i < plan.num_decodes);
  }
  plan = std::move(left);
}

std::vector<Sequence> Scheduler::abort(const StepPlan& plan) {
  must_commit_ = false;
  std::vector<Sequence> aborted;
  const auto take = [&](int64_t age) {
    if (std::optional<Sequence> seq = extract(age)) aborted.push_back(std::move(*seq));
  };
  for (const Chunk& chunk : plan.chunks) take(chunk.age);
  for (const Draw& draw : plan.draws) take(draw.age);
  pool_.withdraw(plan.published);
  return aborted;
}

Scheduler::ByAge* Scheduler::queue_of(int64_t age) {
  for (ByAge* const queue : {&running_, &leaving_, &waiting_}) {
    if (queue->contains(age)) return queue;
  }
  return nullptr;
}

std::vector<const Sequence*> Scheduler::sequences_of(const StepPlan& plan) const {
  std::vector<const Sequence*> sequences;
  sequences.reserve(plan.chunks.size());
  for (const Chunk& chunk : plan.chunks) {
    sequences.push_back(find(chunk.age));
    CHECK(sequences.back() != nullptr);
  }
  return sequences;
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
  fork_copies_.clear();
  must_commit_ = false;
  running_.clear();
  waiting_.clear();
  leaving_.clear();
}

CacheUse Scheduler::cache_use() const {
  const KvStats stats = pool_.stats();
  CacheUse use = {.positions_leased = stats.positions_leased,
                  .positions_contiguous = int64_t{num_running()} * limits_.max_model_len};
  for (const auto& [age, seq] : running_) use.tokens_served += seq.num_held();
  use.tokens_held = use.tokens_served;
  if (stats.positions_saved == 0) return use;
  // Of a block that several hold the largest number of tokens counts.
  const int block_size = pool_.block_size();
  const auto for_each_block = [&](const auto& f) {
    for (const auto& [age, seq] : running_) {
      for (int first = 0, end = seq.num_held(); first < end; first += block_size) {
        f(tokens_in_block_[seq.lease.block_table[first / block_size] / block_size],
          std::min(block_size, end - first));
      }
    }
  };
  tokens_in_block_.resize(static_cast<size_t>(stats.positions_total / block_size));
  for_each_block([](int& in_block, int held) { in_block = std::max(in_block, held); });
  use.tokens_held = 0;
  for_each_block([&](int& in_block, int) { use.tokens_held += std::exchange(in_block, 0); });
  return use;
}

}  // namespace pagedinfer
