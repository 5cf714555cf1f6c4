#include "sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/check.h"

namespace pagedinfer {
namespace {

// A unit is scheduled as a whole: a sequence, or all beams of a search. Returns its end in `queue`.
Scheduler::ByAge::iterator end_of_unit(Scheduler::ByAge& queue, Scheduler::ByAge::iterator it) {
  const Sequence& seq = it->second;
  if (!seq.is_beam()) return std::next(it);
  return queue.lower_bound(seq.first_age() + seq.request->sampling.beams.width);
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

// How many more extra draws a plan may have while `num_samples` samples run. While other sequences
// wait, half of the draws are kept for them.
int free_draws(const StepPlan& plan, int max_draws, int num_samples, bool others_wait) {
  const int max_extra = std::min(max_draws - num_samples, others_wait ? max_draws / 2 : max_draws);
  return std::max(0, max_extra - num_extra_draws(plan));
}

}  // namespace

Scheduler::Scheduler(KvPool& pool, const SchedulerLimits& limits)
    : pool_(pool),
      groups_(pool),
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

Result<> Scheduler::fits(const Request& first) const {
  for (size_t i = 0; i <= first.more.size(); ++i) {
    const Request& request = i == 0 ? first : first.more[i - 1];
    Result<> result =
        fits(std::ssize(request.prompt), request.sampling.max_tokens, request.sampling.beams.width);
    if (result) continue;
    std::string& message = result.error().message;
    if (!first.more.empty()) message = fmt::format("prompt[{}]: {}", i, message);
    return result;
  }
  return {};
}

int64_t Scheduler::submit(const Request& request) {
  const int max_tokens = request.sampling.max_tokens;
  const auto num_prompt = static_cast<int64_t>(request.prompt.size());
  const int width = request.sampling.beams.width;
  CHECK(max_tokens > 0 || (request.num_prompt_candidates() >= 0 && num_prompt > 1));
  CHECK(fits(num_prompt, max_tokens, width));
  CHECK(request.num_samples > 0);
  CHECK(width == 1 || (request.num_samples == 1 && request.num_prompt_candidates() < 0));
  const int64_t age = next_age_;
  next_age_ += std::max(request.num_samples, width);
  waiting_.emplace_hint(waiting_.end(), age, Sequence(request, age, limits_.max_model_len));
  batch_ended_ = false;
  return age;
}

// Counts tokens only if the waiting sequences could have too many.
bool Scheduler::window_full() const {
  if (num_waiting() >= limits_.max_waiting) return true;
  const int64_t max_tokens = limits_.max_waiting_tokens;
  if (int64_t{num_waiting()} * limits_.max_model_len < max_tokens) return false;
  int64_t num_tokens = 0;
  for (const auto& [age, seq] : waiting_) num_tokens += std::ssize(seq.tokens);
  return num_tokens >= max_tokens;
}

bool Scheduler::may_wait_for_input() const {
  return running_.empty() && !input_ended_ && (waiting_.empty() || batch_is_filling());
}

// Only static batches wait until they are full.
bool Scheduler::batch_is_filling() const {
  return limits_.batching == Batching::kStatic && !window_full() && !batch_ended_;
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
  for (auto it = running_.begin(); it != running_.end();) {
    const auto end = [&] { return end_of_unit(running_, it); };
    if (!std::all_of(it, end(), [](const auto& item) { return item.second.is_decoding(); })) {
      it = end();
      continue;
    }
    if (!it->second.is_beam()) cut_drafts(it->second, draft_budget);
    while (!grow(it, end())) {
      const bool is_youngest = end() == running_.end();
      CHECK(!is_youngest || it != running_.begin());  // by fits() the pool holds it alone
      plan.num_preempted += preempt_youngest();
      if (is_youngest) return;
    }
    for (const auto last = end(); it != last; ++it) {
      draft_budget -= it->second.num_drafted;
      plan.add_decode(it->second);
      it->second.num_in_step = 1 + it->second.num_drafted;
    }
  }
}

bool Scheduler::grow(ByAge::iterator begin, ByAge::iterator end) {
  return std::all_of(begin, end, [&](auto& item) {
    Sequence& seq = item.second;
    return pool_.grow(seq.lease, seq.num_computed, seq.num_known());
  });
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
  const int num_samples = num_samples_running();
  for (auto it = running_.begin(); it != running_.end();) {
    Sequence& seq = it->second;
    const auto begin = std::exchange(it, end_of_unit(running_, it));
    if (seq.is_split_beam()) {
      if (!catch_up(begin, it, plan)) return;
      continue;
    }
    if (seq.is_decoding()) continue;
    const int num_findable = pool_.num_findable(seq.lease, seq.tokens);
    int count = next_chunk(plan, seq.num_wanted(), seq.num_pending_after(num_findable));
    if (count == 0) return;
    count = cut_scores(seq, count, free_draws(plan, max_draws_, num_samples, !waiting_.empty()));
    if (num_findable > seq.num_computed) {
      pool_.adopt(seq.lease, seq.tokens);
      plan.num_found += seq.skip_cached();
    }
    add_prefill(seq, count, plan);
  }
}

// The samples of running sequences. A prompt counts for all samples that will be forked from it.
int Scheduler::num_samples_running() const {
  int num_samples = 0;
  for (const auto& [age, seq] : running_) num_samples += seq.num_places();
  return num_samples;
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

// Preempted beams compute their lost tokens again, except the last one: all beams decode it
// together after the last of them has caught up. Each beam begins after the tokens that it shares
// with older beams. Returns false if a chunk does not fit in the step.
bool Scheduler::catch_up(ByAge::iterator begin, ByAge::iterator end, StepPlan& plan) {
  for (auto it = begin; it != end; ++it) {
    Sequence& seq = it->second;
    seq.num_computed = std::max(seq.num_computed, seq.num_shared);
    const int num_pending = seq.num_pending() - 1;
    if (num_pending == 0) continue;
    const int count = next_chunk(plan, seq.num_wanted() - 1, num_pending);
    if (count == 0) return false;
    add_prefill(seq, count, plan);
    if (count < num_pending) return true;
  }
  return true;
}

// Adds a chunk of a prompt and publishes its blocks, so that other sequences find them.
void Scheduler::add_prefill(Sequence& seq, int count, StepPlan& plan) {
  plan.add_prefill(seq, count);
  seq.num_in_step = count;
  const bool has_placeholder = seq.tokens.back() < 0;
  const int end = std::min(seq.num_computed + count, seq.num_known() - has_placeholder);
  pool_.publish(seq.lease, std::span(seq.tokens).first(end), plan.published);
}

// Samples of a request always share their common blocks. A preempted sample finds them again while
// another sample runs, so it takes no more room than before. Beams come back together and need no
// scope for that.
ShareScope Scheduler::scope_of(const Sequence& seq) const {
  // A sequence that scores its prompt must compute it: tokens found in the cache are not scored.
  if (limits_.prefix_cache && !seq.scores_prompt()) return kShareAll;
  return seq.request->num_samples > 1 ? seq.first_age() + 1 : kShareNone;
}

// First come, first served: a sequence that does not fit blocks all younger ones. In continuous
// batching a sequence is admitted in the step that computes its first chunk: earlier it would hold
// blocks without using them.
void Scheduler::admit(StepPlan& plan) {
  const bool is_static = limits_.batching == Batching::kStatic;
  if (is_static && (!running_.empty() || batch_is_filling())) return;

  int num_samples = num_samples_running();
  while (!waiting_.empty()) {
    Sequence& seq = waiting_.begin()->second;
    const bool alone = running_.empty();  // if so, nothing grows, and no reserve is needed
    const auto unit_end = end_of_unit(waiting_, waiting_.begin());
    for (auto it = waiting_.begin(); it != unit_end; ++it) num_samples += it->second.num_places();
    if (num_samples > limits_.max_running && !alone) return;
    if (num_samples + num_extra_draws(plan) > max_draws_) return;
    if (seq.is_split_beam()) {
      if (!readmit_beams(alone, plan)) return;
      continue;
    }
    seq.lease.scope = scope_of(seq);
    const int num_findable = pool_.num_findable(seq.lease, seq.tokens);
    int count = next_chunk(plan, seq.num_wanted(), seq.num_pending_after(num_findable));
    if (count == 0 && !is_static) return;
    const int max_extra = free_draws(plan, max_draws_, num_samples, waiting_.size() > 1);
    if (seq.scores_prompt() && max_extra == 0 && !alone && !is_static) return;
    count = cut_scores(seq, count, max_extra);
    // The step that fills a found block may fail; then all that hold it must be a part of the step.
    const ShareScope scope = count > 0 ? seq.lease.scope : kShareNone;
    const auto wanted = std::span(seq.tokens).first(seq.num_wanted());
    std::optional<KvLease> lease = pool_.open(wanted, alone ? 0 : reserve_, scope);
    CHECK(lease || !alone);  // by fits()
    if (!lease) return;

    seq.lease = std::move(*lease);
    plan.num_found += seq.skip_cached();
    running_.insert(waiting_.extract(waiting_.begin()));
    ++plan.num_admitted;
    if (count > 0) add_prefill(seq, count, plan);
  }
}

// Admits all beams of the preempted search at the head of the queue, or none. False: no room.
bool Scheduler::readmit_beams(bool alone, StepPlan& plan) {
  const auto begin = waiting_.begin(), end = end_of_unit(waiting_, begin);
  Sequence& first = begin->second;
  first.lease.scope = scope_of(first);
  int num_pending = first.num_pending_after(pool_.num_findable(first.lease, first.tokens)) - 1;
  // The step that fills a found block may fail; then the beams must be a part of the step.
  if (num_pending == 0) {
    first.lease.scope = kShareNone;
    num_pending = first.num_pending() - 1;
  }
  if (next_chunk(plan, first.num_wanted() - 1, num_pending) == 0) {
    if (limits_.batching != Batching::kStatic) return false;
    first.lease.scope = kShareNone;
  }
  std::vector<Sequence*> beams;
  for (auto it = begin; it != end; ++it) beams.push_back(&it->second);
  auto leases = groups_.open(beams, alone ? 0 : reserve_, first.lease.scope);
  CHECK(leases || !alone);  // by fits()
  if (!leases) return false;

  const int64_t first_age = first.age;
  auto lease = leases->begin();
  for (auto it = begin; it != end;) {
    it->second.lease = std::move(*lease++);
    running_.insert(waiting_.extract(it++));
    ++plan.num_admitted;
  }
  const auto back = running_.find(first_age);
  plan.num_found += back->second.skip_cached();
  catch_up(back, end_of_unit(running_, back), plan);
  return true;
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

// Preempts the youngest unit and returns its number of sequences.
int Scheduler::preempt_youngest() {
  const Sequence& youngest = std::prev(running_.end())->second;
  int count = 0;
  for (auto it = running_.lower_bound(youngest.is_beam() ? youngest.first_age() : youngest.age);
       it != running_.end(); ++count) {
    preempt(it++);
  }
  return count;
}

void Scheduler::preempt(ByAge::iterator it) {
  auto preempted = running_.extract(it);
  Sequence& seq = preempted.mapped();
  pool_.close(seq.lease);
  seq.drop_drafts();
  ++seq.num_preemptions;
  seq.num_computed = seq.num_shared = 0;
  waiting_.insert(std::move(preempted));
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
                                       const EndOf& end_of, const RolesOf& roles_of) {
  CHECK(drawn.size() == plan.draws.size());
  must_commit_ = false;
  Committed result;
  const std::vector<bool> is_done = commit_beams(plan, drawn, end_of, roles_of, result);
  int wrong_chunk = -1;  // the chunk with a wrong guess; its later draws are dropped
  for (size_t row = 0; row < drawn.size(); ++row) {
    const Draw& draw = plan.draws[row];
    if (draw.scores || is_done[row]) continue;
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
    const auto begin = running_.find(chunk.age);
    if (begin == running_.end() || (begin->second.is_beam() && begin->second.sample > 0)) continue;
    const auto end = end_of_unit(running_, begin);
    for (auto it = begin; it != end; ++it) {
      Sequence& seq = it->second;
      std::vector<PublishedBlock> published;  // filled by a step that has not failed
      pool_.publish(seq.lease, std::span(seq.tokens).first(seq.num_computed), published);
    }
  }
  return result;
}

// Returns which rows belong to beams. Searches are committed before other sequences release their
// blocks. Otherwise, in a pool that forks by copying, a new beam could be copied into a released
// block that a copy queued by advance() still reads.
std::vector<bool> Scheduler::commit_beams(const StepPlan& plan, std::span<const DrawnToken> drawn,
                                          const EndOf& end_of, const RolesOf& roles_of,
                                          Committed& result) {
  std::vector<bool> is_done(drawn.size(), false);
  for (size_t row = 0, end = 0; row < drawn.size(); row = end) {
    end = row + 1;
    const Sequence* const seq = find(plan.draws[row].age);
    if (seq == nullptr || !seq->is_beam()) continue;
    const int64_t first_age = seq->first_age();
    const int64_t last_age = first_age + seq->request->sampling.beams.width - 1;
    const auto is_same = [&](int64_t age) { return first_age <= age && age <= last_age; };
    while (end < drawn.size() && is_same(plan.draws[end].age)) ++end;
    std::fill(is_done.begin() + static_cast<std::ptrdiff_t>(row),
              is_done.begin() + static_cast<std::ptrdiff_t>(end), true);
    commit_search(first_age, drawn.subspan(row, end - row), end_of, roles_of, result);
  }
  return is_done;
}

void Scheduler::commit_search(int64_t first_age, std::span<const DrawnToken> drawn,
                              const EndOf& end_of, const RolesOf& roles_of, Committed& result) {
  BeamGroups::Step next = groups_.step(take_beams(first_age), drawn, end_of, roles_of);
  if (next.ended) result.finished.push_back(std::move(*next.ended));
  for (Sequence& beam : next.beams) {
    const int64_t age = beam.age;
    const auto at = running_.emplace(age, std::move(beam)).first;
    if (!next.has_room) preempt(at);
  }
}

// Takes all beams of a search out of the scheduler, with their leases.
BeamGroup Scheduler::take_beams(int64_t first_age) {
  ByAge& queue = *queue_of(first_age);
  const auto begin = queue.find(first_age), end = end_of_unit(queue, begin);
  BeamGroup beams;
  for (auto it = begin; it != end; ++it) beams.push_back(std::move(it->second));
  queue.erase(begin, end);
  return beams;
}

// Stores a drawn token. Returns false if a different token was guessed at this position.
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
  const Sequence& seq = queue->at(age);
  if (seq.is_beam()) return groups_.end(take_beams(seq.first_age()));
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
  groups_.clear();
}

std::vector<const KvLease*> Scheduler::leases() const {
  std::vector<const KvLease*> leases;
  for (const auto& [age, seq] : running_) leases.push_back(&seq.lease);
  return leases;
}

CacheUse Scheduler::cache_use() const {
  const KvStats stats = pool_.stats();
  CacheUse use = {.positions_contiguous = int64_t{num_running()} * limits_.max_model_len};
  for (const auto& [age, seq] : running_) use.tokens_served += seq.num_held();
  use.tokens_held = use.tokens_served;
  if (stats.positions_saved == 0) return use;
  // A block that several sequences hold counts once, with the largest number of tokens held in it.
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
