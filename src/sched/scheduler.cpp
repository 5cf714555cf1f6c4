#include "sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/check.h"

namespace pagedinfer {
namespace {

// The number of sequences that the groups have, or will have when they draw their first tokens.
int num_places(const GroupQueue& queue) {
  int count = 0;
  for (const auto& [age, group] : queue) count += group.num_places();
  return count;
}

// The draws of a plan beyond one for each sample. All of them score prompt tokens; a prompt that
// does not complete scores with the unused draws of its samples first.
int num_extra_draws(const StepPlan& plan) {
  if (plan.num_scores == 0) return 0;
  int num_extra = 0;
  for (const Chunk& chunk : plan.chunks) {
    num_extra += std::max(0, chunk.num_scores - (chunk.completes() ? 0 : chunk.num_samples));
  }
  return num_extra;
}

// How many more extra draws a plan may have while `num_places` sequences run. While others wait,
// half of the draws are kept for them.
int free_draws(const StepPlan& plan, int max_draws, int num_places, bool others_wait) {
  const int max_extra = std::min(max_draws - num_places, others_wait ? max_draws / 2 : max_draws);
  return std::max(0, max_extra - num_extra_draws(plan));
}

// The rows of each group. Searches come first: in a pool that forks by copying, a new beam could
// otherwise be copied into a block that another group has released and that a copy queued by
// advance() still reads.
std::vector<DrawnRows> rows_by_group(const StepPlan& plan, std::span<const DrawnToken> drawn) {
  const std::span<const Draw> draws = plan.draws;
  std::vector<DrawnRows> rows;
  for (size_t first = 0, end = 0; first < draws.size(); first = end) {
    while (end < draws.size() && draws[end].age == draws[first].age) ++end;
    rows.push_back({.first = static_cast<int>(first),
                    .draws = draws.subspan(first, end - first),
                    .drawn = drawn.subspan(first, end - first)});
  }
  std::ranges::stable_partition(rows, [&](const DrawnRows& of_group) {
    return plan.chunks[of_group.draws.front().chunk].is_beam;
  });
  return rows;
}

}  // namespace

Scheduler::Scheduler(KvPool& pool, const SchedulerLimits& limits)
    : pool_(pool),
      limits_(limits),
      max_draws_(std::max(limits.max_running, kMaxSamples)),
      reserve_(static_cast<int>(limits.admission_reserve *
                                static_cast<double>(pool.stats().positions_total))) {
  CHECK(limits.prefill_chunk_size > 0 && limits.max_prefill_chunks > 0);
  CHECK(limits.max_running > 0 && limits.max_waiting > 0 && limits.max_model_len > 0);
  CHECK(limits.admission_reserve >= 0.0 && limits.admission_reserve <= 1.0);
  // With so many tokens all decodes fit a step, and so does a whole prompt where none is cut.
  const int64_t prompt = limits.chunked_prefill ? 0 : limits.max_model_len;
  CHECK(limits.max_step_tokens >= limits.max_running + prompt);
}

Result<> Scheduler::fits(int64_t num_prompt, int64_t max_tokens, int beam_width) const {
  CHECK(0 < num_prompt && num_prompt < limits_.max_model_len);
  // The last token needs no position: it is delivered and never computed.
  const int64_t needed = bound_on_tokens(num_prompt, max_tokens, limits_.max_model_len) - 1;
  const int64_t total = pool_.stats().positions_total;
  if (needed > total) {
    return {"exceeds_cache",
            fmt::format("{} prompt tokens and up to {} completion tokens need {} cache positions, "
                        "and the whole cache has {}",
                        num_prompt, needed + 1 - num_prompt, needed, total)};
  }
  // Beams share at least the full blocks of the prompt.
  const int64_t size = pool_.block_size(), shared = num_prompt / size;
  const int64_t blocks = shared + beam_width * ((needed + size - 1) / size - shared);
  if (blocks * size > total) {
    return {"exceeds_cache",
            fmt::format("{} prompt tokens and {} beams of up to {} completion tokens need {} cache "
                        "positions, and the whole cache has {}",
                        num_prompt, beam_width, needed + 1 - num_prompt, blocks * size, total)};
  }
  return {};
}

Result<> Scheduler::fits(std::span<const Request> prompts) const {
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Request& request = prompts[i];
    Result<> result =
        fits(std::ssize(request.prompt), request.sampling.max_tokens, request.sampling.beams.width);
    if (result) continue;
    std::string& message = result.error().message;
    if (prompts.size() > 1) message = fmt::format("prompt[{}]: {}", i, message);
    return result;
  }
  return {};
}

Age Scheduler::submit(const Request& request) {
  const int max_tokens = request.sampling.max_tokens;
  const auto num_prompt = static_cast<int64_t>(request.prompt.size());
  const int width = request.sampling.beams.width;
  CHECK(max_tokens > 0 || (request.num_prompt_candidates() >= 0 && num_prompt > 1));
  CHECK(fits(num_prompt, max_tokens, width));
  CHECK(request.num_samples > 0);
  CHECK(width == 1 || (request.num_samples == 1 && request.num_prompt_candidates() < 0));
  const Age age = {.request = num_submitted_++};
  Sequence seq(request, age, limits_.max_model_len);
  // A sequence that scores its prompt must compute it: tokens found in the cache are not scored.
  // Samples of a request always share their common blocks, in a scope of their own. A
  // preempted sample finds them again while another sample runs, so it takes no more room than
  // before. Beams come back together and need no scope for that.
  seq.scope = limits_.prefix_cache && !seq.scores_prompt() ? kShareAll
              : request.num_samples > 1                    ? ++last_scope_
                                                           : kShareNone;
  waiting_.insert(age, SequenceGroup{{std::move(seq)}});
  batch_ended_ = input_ended_;
  return age;
}

// Counts tokens only if there could be too many.
bool Scheduler::window_full() const {
  if (num_waiting() >= limits_.max_waiting) return true;
  const int64_t max_tokens =
      std::min(limits_.max_waiting_tokens, int64_t{limits_.max_waiting} * limits_.max_model_len);
  if (num_held_back_ + int64_t{num_waiting()} * limits_.max_model_len < max_tokens) return false;
  int64_t num_tokens = num_held_back_;
  for (const auto& [age, group] : waiting_) {
    for (const Sequence& seq : group.members) num_tokens += std::ssize(seq.tokens);
  }
  return num_tokens >= max_tokens;
}

bool Scheduler::may_wait_for_input() const {
  return running_.empty() && !input_ended_ && (waiting_.empty() || batch_is_filling());
}

// Only static batches wait until they are full.
bool Scheduler::batch_is_filling() const {
  return limits_.batching == Batching::kStatic && !window_full() && !batch_ended_;
}

void Scheduler::draft(Age age, std::span<const TokenId> tokens) {
  Sequence& seq = running_.at(age).first();
  CHECK(seq.is_decoding() && seq.tokens.back() >= 0 && seq.num_drafted == 0);
  CHECK(seq.num_known() + std::ssize(tokens) < seq.max_tokens);
  seq.tokens.insert(seq.tokens.end(), tokens.begin(), tokens.end());
  seq.num_drafted = static_cast<int>(tokens.size());
}

StepPlan Scheduler::plan(const OnAdmit& on_admit) {
  CHECK(!must_commit_);
  StepPlan plan;
  plan.chunks.reserve(running_.size() + 1);
  plan.draws.reserve(running_.size() + 1);
  serve_decodes(plan);
  continue_prompts(plan);
  if (plan.num_preempted == 0) admit(plan, on_admit);

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
    SequenceGroup& group = it->second;
    if (!group.is_decoding()) continue;
    cut_drafts(group.first(), draft_budget);
    while (!group.grow(pool_)) {
      const auto youngest = std::prev(running_.end());
      CHECK(youngest != running_.begin());  // by fits() the pool holds a group alone
      const bool is_youngest = it == youngest;
      plan.num_preempted += preempt(youngest);
      if (is_youngest) return;
    }
    for (Sequence& seq : group.members) {
      draft_budget -= seq.num_drafted;
      plan.add_decode(seq);
      seq.num_in_step = 1 + seq.num_drafted;
    }
  }
}

// Returns the number of sequences that were preempted.
int Scheduler::preempt(GroupQueue::iterator it) {
  it->second.preempt(pool_);
  const auto waiting = waiting_.insert(running_.extract(it));
  return static_cast<int>(waiting->second.members.size());
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
  const int num_running = num_places(running_);
  for (auto& [age, group] : running_) {
    if (!group.is_decoding() && !catch_up(group, num_running, plan)) return;
  }
}

// Adds chunks of a group that is not decoding while `num_places` sequences run, and publishes their
// blocks, so that others find them. Each beam begins after the tokens that it shares with older
// beams. Returns false if a chunk does not fit in the step.
bool Scheduler::catch_up(SequenceGroup& group, int num_places, StepPlan& plan) {
  for (Sequence& seq : group.members) {
    seq.num_computed = std::max(seq.num_computed, seq.num_shared);
    const int num_findable = pool_.num_findable(seq.lease, seq.tokens);
    const int num_pending = group.num_pending(seq, num_findable);
    if (num_pending == 0) continue;
    int count = next_chunk(plan, group.end_of_chunks(seq), num_pending);
    if (count == 0) return false;
    count = cut_scores(seq, count, free_draws(plan, max_draws_, num_places, !waiting_.empty()));
    if (num_findable > seq.num_computed) {
      pool_.adopt(seq.lease, seq.tokens);
      plan.num_found += seq.skip_cached();
    }
    plan.add_prefill(seq, count);
    seq.num_in_step = count;
    const bool has_placeholder = seq.tokens.back() < 0;
    const int end = std::min(seq.num_computed + count, seq.num_known() - has_placeholder);
    pool_.publish(seq.lease, std::span(seq.tokens).first(end), plan.published);
    if (count < num_pending) break;  // a younger beam may share what is left
  }
  return true;
}

// The largest chunk, up to `count` tokens, that has at most `max_extra` draws beyond one for each
// sample of its sequence. A chunk of one token always qualifies.
int Scheduler::cut_scores(const Sequence& seq, int count, int max_extra) const {
  const auto num_extra = [&](int tokens) {
    return seq.num_scores(tokens) - (tokens < seq.num_pending() ? seq.num_samples() : 0);
  };
  while (count > 1 && num_extra(count) > max_extra) --count;
  return count;
}

// First come, first served: a group that does not fit blocks all younger ones. In continuous
// batching a group is admitted in the step that computes its first chunk: earlier it would hold
// blocks without using them.
void Scheduler::admit(StepPlan& plan, const OnAdmit& on_admit) {
  const bool is_static = limits_.batching == Batching::kStatic;
  if (is_static && (!running_.empty() || batch_is_filling())) return;

  int num_running = num_places(running_);
  while (!waiting_.empty()) {
    SequenceGroup& group = waiting_.begin()->second;
    Sequence& first = group.first();
    const bool alone = running_.empty();  // if so, nothing grows, and no reserve is needed
    num_running += group.num_places();
    if (num_running > limits_.max_running && !alone) return;
    if (num_running + num_extra_draws(plan) > max_draws_) return;
    // The step that fills a found block may fail; then all that hold it must be a part of the step.
    ShareScope scope = first.scope;
    const int num_findable = pool_.num_findable({.scope = scope}, first.tokens);
    int num_pending = group.num_pending(first, num_findable);
    if (num_pending == 0) {
      scope = kShareNone;
      num_pending = group.num_pending(first, 0);
    }
    if (next_chunk(plan, group.end_of_chunks(first), num_pending) == 0) {
      if (!is_static) return;
      scope = kShareNone;
    }
    const int max_extra = free_draws(plan, max_draws_, num_running, waiting_.size() > 1);
    if (first.scores_prompt() && max_extra == 0 && !alone && !is_static) return;
    if (!group.lease(pool_, alone ? 0 : reserve_, scope)) {
      CHECK(!alone);  // by fits()
      return;
    }
    plan.num_found += first.skip_cached();
    plan.num_admitted += static_cast<int>(group.members.size());
    running_.insert(waiting_.extract(waiting_.begin()));
    if (on_admit) on_admit(first);
    catch_up(group, num_running, plan);
  }
}

// The last `num_pending` tokens before `end` are pending. Returns how many of them the step has
// room for.
int Scheduler::next_chunk(const StepPlan& plan, int end, int num_pending) const {
  if (plan.num_prefills() == limits_.max_prefill_chunks) return 0;
  // The difference is negative if there are more beams than a step has tokens.
  const int budget = std::max(0, limits_.max_step_tokens - plan.num_tokens);
  if (!limits_.chunked_prefill) return num_pending <= budget ? num_pending : 0;
  const int count = std::min({num_pending, limits_.prefill_chunk_size, budget});
  // Only full blocks are findable. So if requests share, a chunk ends at the end of a block;
  // otherwise another request would compute part of the block again. The first chunk of a step may
  // end anywhere, so that each step makes progress.
  const int size = pool_.block_size();
  const bool may_split = !limits_.prefix_cache || limits_.prefill_chunk_size < size;
  if (may_split || count == num_pending) return count;
  const int aligned = count - (end - num_pending + count) % size;
  return aligned > 0 ? aligned : plan.num_prefills() == 0 ? count : 0;
}

void Scheduler::advance(const StepPlan& plan) {
  for (const Chunk& chunk : plan.chunks) {
    const auto it = running_.find(chunk.age);
    if (it == running_.end()) continue;
    Sequence& seq = it->second.member(chunk.sample);
    CHECK(seq.num_computed == chunk.start && seq.tokens.back() >= 0);
    seq.num_in_step = 0;
    if (!chunk.verifies()) seq.advance(chunk.count);
    seq.num_scored += chunk.num_scores;
    if (!seq.draws() && seq.num_pending() == 0) leave(it);
  }
  must_commit_ = !plan.may_overlap;
  for (size_t row = 0; row < plan.draws.size(); ++row) {
    const Draw& draw = plan.draws[row];
    const Chunk& chunk = plan.chunks[draw.chunk];
    GroupQueue* const queue = queue_of(chunk.age);
    if (queue == nullptr || chunk.verifies() || draw.scores) continue;
    const TokenId placeholder = -1 - static_cast<TokenId>(row);
    SequenceGroup& group = queue->at(chunk.age);
    if (draw.age != chunk.age) {
      fork_sample(group.first(), draw, placeholder);
      continue;
    }
    Sequence& seq = group.member(draw.sample);
    seq.tokens.push_back(placeholder);
    const bool is_last = &seq == &group.members.back();
    if (is_last && seq.num_known() == seq.max_tokens) leave(running_.find(draw.age));
  }
  fork_copies_ = pool_.take_copies();
}

// The group computes no further token.
void Scheduler::leave(GroupQueue::iterator it) {
  it->second.close(pool_);
  leaving_.insert(running_.extract(it));
}

void Scheduler::fork_sample(const Sequence& parent, const Draw& draw, TokenId placeholder) {
  Sequence child(*parent.request, draw.age, limits_.max_model_len);
  child.sample = draw.sample;
  child.scope = parent.scope;
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
  GroupQueue& queue = leaves ? leaving_ : lease ? running_ : waiting_;
  queue.insert(draw.age, SequenceGroup{{std::move(child)}});
}

Scheduler::Committed Scheduler::commit(const StepPlan& plan, std::span<const DrawnToken> drawn,
                                       const EndOf& end_of, const RolesOf& roles_of) {
  CHECK(drawn.size() == plan.draws.size());
  must_commit_ = false;
  Committed result;
  for (const DrawnRows& rows : rows_by_group(plan, drawn)) {
    const Age age = rows.draws.front().age;
    GroupQueue* const queue = queue_of(age);
    if (queue == nullptr) {
      result.num_surplus += static_cast<int>(std::ranges::count(rows.draws, false, &Draw::scores));
      continue;
    }
    SequenceGroup::Committed committed = queue->change(
        age, [&](SequenceGroup& group) { return group.commit(pool_, rows, end_of, roles_of); });
    result.num_surplus += committed.num_surplus;
    if (committed.ended) {
      result.finished.push_back(*std::move(committed.ended));
      queue->erase(age);
    } else if (!committed.has_room) {
      preempt(running_.find(age));
    }
  }
  for (const Chunk& chunk : plan.chunks) {
    if (const auto it = leaving_.find(chunk.age);
        it != leaving_.end() && !it->second.first().draws()) {
      it->second.first().finished = FinishReason::kLength;
      result.finished.push_back(it->second.end(pool_));
      leaving_.erase(chunk.age);
    }
    const auto it = running_.find(chunk.age);
    if (it != running_.end()) it->second.publish(pool_);
  }
  return result;
}

void Scheduler::erase_finished(StepPlan& plan) const {
  StepPlan left = {.copies = std::move(plan.copies),
                   .num_admitted = plan.num_admitted,
                   .num_preempted = plan.num_preempted,
                   .num_found = plan.num_found,
                   .published = std::move(plan.published)};
  for (int i = 0; i < static_cast<int>(plan.chunks.size()); ++i) {
    const Chunk& chunk = plan.chunks[i];
    if (find(chunk) != nullptr) left.add(chunk, i < plan.num_decodes);
  }
  plan = std::move(left);
}

std::vector<Sequence> Scheduler::abort(const StepPlan& plan) {
  must_commit_ = false;
  std::vector<Sequence> aborted;
  const auto take = [&](Age age) {
    GroupQueue* const queue = queue_of(age);
    if (queue == nullptr) return;
    aborted.push_back(queue->at(age).end(pool_));
    queue->erase(age);
  };
  for (const Chunk& chunk : plan.chunks) take(chunk.age);
  for (const Draw& draw : plan.draws) take(draw.age);
  pool_.withdraw(plan.published);
  return aborted;
}

GroupQueue* Scheduler::queue_of(Age age) {
  for (GroupQueue* const queue : {&running_, &leaving_, &waiting_}) {
    if (queue->contains(age)) return queue;
  }
  return nullptr;
}

const Sequence* Scheduler::find(Age age, int sample) const {
  for (const GroupQueue* const queue : {&running_, &leaving_, &waiting_}) {
    if (const auto it = queue->find(age); it != queue->end()) return &it->second.member(sample);
  }
  return nullptr;
}

std::vector<const Sequence*> Scheduler::sequences_of(const StepPlan& plan) const {
  std::vector<const Sequence*> sequences;
  sequences.reserve(plan.chunks.size());
  for (const Chunk& chunk : plan.chunks) {
    sequences.push_back(find(chunk));
    CHECK(sequences.back() != nullptr);
  }
  return sequences;
}

void Scheduler::clear() {
  for (auto& [age, group] : running_) group.close(pool_);
  fork_copies_.clear();
  must_commit_ = false;
  running_.clear();
  waiting_.clear();
  leaving_.clear();
}

std::vector<const KvLease*> Scheduler::leases() const {
  std::vector<const KvLease*> leases;
  for (const auto& [age, group] : running_) {
    for (const Sequence& seq : group.members) leases.push_back(&seq.lease);
  }
  return leases;
}

CacheUse Scheduler::cache_use() const {
  std::vector<HeldTokens> held;
  CacheUse use;
  for (const auto& [age, group] : running_) {
    for (const Sequence& seq : group.members) {
      held.push_back({&seq.lease, seq.num_held()});
      use.tokens_served += seq.num_held();
      use.positions_contiguous += limits_.max_model_len;
    }
  }
  use.tokens_held = pool_.num_held(held);
  return use;
}

}  // namespace pagedinfer
