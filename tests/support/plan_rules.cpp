#include "tests/support/plan_rules.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

namespace pagedinfer {
namespace {

bool is_new(const Sequence& seq, const PlanContext& context) {
  return !context.ran_before.contains(id_of(seq));
}

// Whether `seq` is a beam of a search that has begun.
bool is_split_beam(const Sequence& seq) { return seq.is_beam() && seq.num_generated() > 0; }

// The number of sequences that this one is, or becomes when its first token is drawn.
int num_places(const Sequence& seq) {
  if (seq.num_generated() > 0) return 1;
  return std::max(seq.request->num_samples, seq.request->sampling.beams.width);
}

int reserve(const PlanContext& context) {
  return static_cast<int>(context.limits.admission_reserve *
                          static_cast<double>(context.pool.stats().positions_total));
}

// The largest chunk at `start` that the budget and the limits permit. Where requests share, it ends
// with a block if it can.
int largest_chunk(int start, int num_pending, int budget, const PlanContext& context) {
  const SchedulerLimits& limits = context.limits;
  const int block_size = context.pool.block_size();
  if (!limits.chunked_prefill) return num_pending;
  const int most = std::min({num_pending, limits.prefill_chunk_size, budget});
  if (!limits.prefix_cache || limits.prefill_chunk_size < block_size) return most;
  const int end = (start + most) / block_size * block_size;
  return most == num_pending || end <= start ? most : end - start;
}

// The order of chunks: decodes, then prompts in progress, then new prompts, each oldest first. Each
// chunk is as large as the limits permit.
void check_chunks(const StepPlan& plan, const PlanContext& context) {
  const SchedulerLimits& limits = context.limits;
  int budget = limits.max_step_tokens, num_drafted = 0;
  bool must_commit = false;                          // what is drawn decides the next plan
  std::pair<int, SequenceId> last = {0, {{-1}, 0}};  // kind and sequence
  for (int i = 0; i < static_cast<int>(plan.chunks.size()); ++i) {
    const Chunk& chunk = plan.chunks[i];
    REQUIRE(context.scheduler.running().contains(chunk.age));
    const Sequence& seq = *context.scheduler.find(chunk);
    const bool is_decode = i < plan.num_decodes;
    const std::pair place = {is_decode ? 0 : is_new(seq, context) ? 2 : 1, id_of(seq)};
    REQUIRE(place > last);
    last = place;
    // A prompt that has found all but its last token computes that one as a prompt.
    const bool has_found = !is_decode && seq.lease.num_cached >= chunk.start;
    REQUIRE(is_decode == (seq.is_decoding() && !is_new(seq, context) && !has_found));
    REQUIRE(chunk.start == seq.num_computed);
    // Beams that come back leave the last token to a step that decodes them all.
    const int num_pending = seq.num_pending() - (is_split_beam(seq) && !is_decode);
    must_commit = must_commit || (seq.is_beam() && chunk.num_drawing() > 0);
    if (is_decode) {
      REQUIRE(chunk.count == 1 + seq.num_drafted);
      REQUIRE(chunk.num_logits == chunk.count);
      num_drafted += seq.num_drafted;
    } else {
      const int largest = largest_chunk(chunk.start, num_pending, budget, context);
      if (seq.scores_prompt()) {
        REQUIRE(chunk.count <= largest);
      } else {
        REQUIRE(chunk.count == largest);
      }
      REQUIRE(chunk.num_scores == seq.num_scores(chunk.count));
      REQUIRE(chunk.num_drawing() == (chunk.count == seq.num_pending() && seq.draws()));
    }
    REQUIRE(chunk.num_samples == seq.num_samples());
    REQUIRE(chunk.count > 0);
    budget -= chunk.count;
  }
  REQUIRE((budget >= 0 || context.scheduler.running().size() <= 1));
  // Guessed tokens leave every sequence that may run a token, and a whole prompt its own.
  const int prompt = limits.chunked_prefill ? 0 : limits.max_model_len;
  REQUIRE(num_drafted <= limits.max_step_tokens - limits.max_running - prompt);
  REQUIRE(plan.may_overlap == (num_drafted == 0 && !must_commit));
  REQUIRE(plan.num_tokens == limits.max_step_tokens - budget);
  REQUIRE(plan.num_prefills() <= limits.max_prefill_chunks);
}

// No two tokens are written to one slot, nothing is padding, and no block that several sequences
// hold is written to, but by the one that publishes it in this step: others hold it to read it.
void check_batch(const StepPlan& plan, const Batch& batch, const PlanContext& context) {
  REQUIRE(plan.num_tokens == batch.num_tokens());
  REQUIRE(plan.chunks.size() == batch.context_lens.size());
  std::vector<int32_t> slots = batch.slot_mapping;
  std::erase(slots, -1);
  std::ranges::sort(slots);
  REQUIRE(std::ranges::adjacent_find(slots) == slots.end());
  const int block_size = context.pool.block_size();
  std::map<int32_t, int> num_holders;  // by block
  for (const Sequence* const seq : sequences_of(context.scheduler.running())) {
    // An older beam computes the tokens that this one shares with it.
    for (size_t i = static_cast<size_t>(seq->num_shared / block_size);
         i < seq->lease.block_table.size(); ++i) {
      ++num_holders[seq->lease.block_table[i] / block_size];
    }
  }
  for (const PublishedBlock& published : plan.published) num_holders[published.block] = 1;
  for (const int32_t slot : slots) REQUIRE(num_holders[slot / block_size] == 1);
}

ShareScope scope_of(const Sequence& seq, const PlanContext& context) {
  if (context.limits.prefix_cache && !seq.scores_prompt()) return kShareAll;
  return seq.request->num_samples > 1 ? seq.scope : kShareNone;
}

// A row of logits for each chunk that completes, or each token of a decode, and from each row a
// token for each sample.
void check_draws(const StepPlan& plan, const Batch& batch, const PlanContext& context) {
  REQUIRE(plan.num_logits == batch.num_logits());
  size_t next = 0;
  int row = 0;
  for (int c = 0; c < std::ssize(plan.chunks); ++c) {
    const Chunk& chunk = plan.chunks[c];
    for (int i = 0; i < chunk.num_logits; ++i, ++row) {
      const int32_t token = batch.logit_tokens[row];
      REQUIRE(token == batch.query_starts[c + 1] - chunk.num_logits + i);
      const bool scores = i < chunk.num_scores;
      for (int sample = 0; sample < (scores ? 1 : chunk.num_samples); ++sample) {
        const Draw& draw = plan.draws.at(next++);
        REQUIRE(draw.scores == scores);
        REQUIRE(draw.chunk == c);
        REQUIRE(draw.age == Age{chunk.age.request, chunk.age.sample + sample});
        REQUIRE(draw.sample == chunk.sample + sample);
        REQUIRE(draw.logits_row == row);
        REQUIRE(draw.position == batch.positions[token] + 1);
      }
    }
  }
  REQUIRE(row == plan.num_logits);
  REQUIRE(next == plan.draws.size());
  REQUIRE(std::ssize(plan.draws) <= std::max(context.limits.max_running, kMaxSamples));
}

// Copies may be carried out in any order, and more than once.
void check_copies(const StepPlan& plan, const Batch& batch) {
  REQUIRE(batch.copies.size() == plan.copies.size());
  std::set<int32_t> sources, destinations;
  for (const KvCopy& copy : plan.copies) {
    REQUIRE(copy.count > 0);
    sources.insert(copy.source);
    REQUIRE(destinations.insert(copy.destination).second);
  }
  for (const int32_t source : sources) REQUIRE(!destinations.contains(source));
}

// Running sequences are older than waiting ones, but for samples that found no room when their
// prompt was computed.
void check_who_runs(const StepPlan& plan, const PlanContext& context) {
  const auto& [pool, scheduler, limits, ran_before] = context;
  const std::set<SequenceId> runs = ids_of(scheduler.running());
  for (const Sequence* const seq : sequences_of(scheduler.waiting())) {
    if (runs.empty() || id_of(*seq) > *runs.rbegin()) break;
    if (is_split_beam(*seq)) continue;  // which found no room to fork
    REQUIRE(seq->sample > 0);
    REQUIRE(seq->num_preemptions == 0);
  }
  int num_left = 0, num_joined = 0;
  for (const SequenceId& id : ran_before) num_left += !runs.contains(id);
  for (const SequenceId& id : runs) num_joined += !ran_before.contains(id);
  REQUIRE(plan.num_preempted == num_left);
  REQUIRE(plan.num_admitted == num_joined);
  REQUIRE(scheduler.num_running() == static_cast<int>(runs.size()));
  REQUIRE(scheduler.num_waiting() == std::ssize(sequences_of(scheduler.waiting())));
  const bool is_alone = scheduler.running().size() <= 1;
  REQUIRE((static_cast<int>(runs.size()) <= limits.max_running || is_alone));
  if (num_joined == 0) return;
  REQUIRE(num_left == 0);
  REQUIRE((limits.batching == Batching::kContinuous || ran_before.empty()));
  const auto free = pool.free_tokens();
  if (!is_alone && free) REQUIRE(*free >= reserve(context));
}

// Every sequence that is not in the plan is held back by a limit.
void check_unserved(const StepPlan& plan, const PlanContext& context) {
  const auto& [pool, scheduler, limits, ran_before] = context;
  std::set<SequenceId> planned;
  for (const Chunk& chunk : plan.chunks) planned.insert({chunk.age, chunk.sample});
  const int budget = limits.max_step_tokens - plan.num_tokens;
  const bool ends_with_blocks = limits.prefix_cache && plan.num_prefills() > 0 &&
                                limits.prefill_chunk_size >= pool.block_size();
  const auto no_room_in_step = [&](const Sequence& seq) {
    return plan.num_prefills() == limits.max_prefill_chunks ||
           budget < (!limits.chunked_prefill ? seq.num_pending()
                     : ends_with_blocks      ? pool.block_size()
                                             : 1);
  };
  const Sequence* unserved = nullptr;
  for (const Sequence* const seq : sequences_of(scheduler.running())) {
    if (planned.contains(id_of(*seq)) || is_split_beam(*seq)) continue;
    REQUIRE(!seq->is_decoding());  // decodes are served in every step
    // A sequence is admitted in the step that computes its first chunk.
    REQUIRE((limits.batching == Batching::kStatic || !is_new(*seq, context)));
    if (!unserved) unserved = seq;
  }
  if (unserved) REQUIRE(no_room_in_step(*unserved));
  if (scheduler.waiting().empty() || limits.batching == Batching::kStatic) return;
  const Sequence& head = *sequences_of(scheduler.waiting()).front();
  if (is_split_beam(head)) return;
  int num_samples = num_places(head);
  for (const Sequence* const seq : sequences_of(scheduler.running())) {
    num_samples += num_places(*seq);
  }
  const bool is_full = (num_samples > limits.max_running && !scheduler.running().empty()) ||
                       num_samples + plan.num_scores > std::max(limits.max_running, kMaxSamples);
  // Others may have taken all draws of the step that scores may have.
  const bool has_no_draws = head.scores_prompt() && plan.num_scores > 0;
  if (plan.num_preempted > 0 || is_full || has_no_draws) return;
  const int kept = scheduler.running().empty() ? 0 : reserve(context);
  // Without chunks, what a later prompt of the step publishes can make an earlier one fit.
  const bool has_late_hits = !limits.chunked_prefill && limits.prefix_cache;
  REQUIRE(
      (no_room_in_step(head) || has_late_hits ||
       !pool.open(std::span(head.tokens).first(head.num_wanted()), kept, scope_of(head, context))));
}

}  // namespace

std::vector<const Sequence*> sequences_of(const GroupQueue& queue) {
  std::vector<const Sequence*> sequences;
  for (const auto& [age, group] : queue) {
    for (const Sequence& seq : group.members) sequences.push_back(&seq);
  }
  return sequences;
}

std::set<SequenceId> ids_of(const GroupQueue& queue) {
  std::set<SequenceId> ids;
  for (const Sequence* const seq : sequences_of(queue)) ids.insert(id_of(*seq));
  return ids;
}

Ages ages_of(const GroupQueue& queue) {
  Ages ages;
  for (const auto& [age, group] : queue) ages.insert(age);
  return ages;
}

Ages requests(std::initializer_list<int64_t> numbers) {
  Ages ages;
  for (const int64_t number : numbers) ages.insert({.request = number});
  return ages;
}

Ages samples(std::initializer_list<int> numbers) {
  Ages ages;
  for (const int number : numbers) ages.insert({.sample = number});
  return ages;
}

void check_plan(const StepPlan& plan, const Batch& batch, const PlanContext& context) {
  check_chunks(plan, context);
  check_batch(plan, batch, context);
  check_draws(plan, batch, context);
  check_copies(plan, batch);
  check_who_runs(plan, context);
  check_unserved(plan, context);
}

}  // namespace pagedinfer
