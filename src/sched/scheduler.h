// Decides which tokens the next step computes. Knows nothing of models, devices or time, and
// not which pool it draws from.
//
// plan() chooses a step, advance() follows its launch, commit() takes the tokens that it drew. The
// next step may be planned and launched between the last two:
//   plan 1, advance 1, plan 2, commit 1, advance 2, plan 3, commit 2, advance 3, ...
// Plan 2 then continues from placeholder tokens of step 1 (core/batch.h).
#pragma once

#include <functional>
#include <limits>
#include <span>

#include "core/cache_use.h"
#include "sched/group_queue.h"
#include "sched/step_plan.h"

namespace pagedinfer {

enum class Batching : uint8_t { kContinuous, kStatic };

struct SchedulerLimits {
  Batching batching = Batching::kContinuous;
  bool chunked_prefill = true;  // false: a prompt is computed in one step, whole
  int prefill_chunk_size = 512;
  int max_prefill_chunks = std::numeric_limits<int>::max();  // per step
  // At least max_running; without chunked_prefill at least max_running + max_model_len.
  int max_step_tokens = 2048;
  // In sequences: each sample of a request is one. A step draws and scores at most this many
  // tokens, or kMaxSamples if that is larger.
  int max_running = 256;
  int max_waiting = 1024;  // the read-ahead window; a static batch starts when it is full
  int64_t max_waiting_tokens = int64_t{4} << 20;  // the window is also full with so many tokens
  int max_model_len = 4096;
  double admission_reserve = 0.2;  // part of the pool kept for the growth of what runs
  bool prefix_cache = false;       // requests share the blocks of equal prefixes; samples always do
};

class Scheduler {
 public:
  // REQUIRES: every limit is positive, and max_step_tokens is as large as its comment says.
  Scheduler(KvPool& pool, const SchedulerLimits& limits);

  // Whether such a request fits into the pool if it runs alone. REQUIRES: the prompt has a token
  // and is shorter than max_model_len.
  Result<> fits(int64_t num_prompt, int64_t max_tokens, int beam_width = 1) const;
  // Whether each prompt of a line does.
  Result<> fits(std::span<const Request> prompts) const;

  // Returns the age of the request's first sample. REQUIRES: fits(); num_samples is positive;
  // max_tokens is positive, or the prompt is scored and has at least 2 tokens; a beam search has
  // one sample and does not score its prompt; the request outlives its sequences.
  Age submit(const Request& request);
  // Says that no more input is there for now, so that a static batch starts with the submitted
  // requests. Holds until the next submit().
  void end_batch() { batch_ended_ = true; }
  void end_input() { batch_ended_ = input_ended_ = true; }
  bool input_ended() const { return input_ended_; }
  // Counts `change` more tokens for the window: of prompts that the caller holds back.
  void hold_back(int64_t change) { num_held_back_ += change; }
  bool window_full() const;
  bool idle() const { return waiting_.empty() && running_.empty() && leaving_.empty(); }
  // Whether plan() has nothing to compute before more input comes: nothing runs, and nothing waits
  // except perhaps a static batch that is still filling.
  bool may_wait_for_input() const;

  // Guesses the tokens that follow the known ones of a decode; the next plan verifies as many as
  // fit a step and the pool. REQUIRES: the sequence runs and is decoding, all its tokens are known,
  // and with the guessed ones it stays below its max_tokens.
  void draft(Age age, std::span<const TokenId> tokens);

  // Chooses the next step and leases the cache positions that it writes. Decodes come first, oldest
  // first. If the pool is full, the youngest sequence is preempted: it loses its lease and waits
  // again. The rest of the step goes to prompts in progress, and then, unless a sequence was
  // preempted, to new prompts. A prompt skips the tokens that are in the cache, or that this step
  // writes there for an earlier sequence: a layer writes all keys and values of a step before it
  // reads any. The beams of a search are decoded, preempted and admitted together. The plan is
  // empty only if nothing runs, and nothing waits or a static batch is still filling. After a plan
  // that is not empty, call advance() or abort(). REQUIRES: the plan before is advanced, and
  // committed unless it may overlap.
  // Calls `on_admit` for each sequence that it admits, also again after a preemption. `on_admit`
  // may submit() a request, which the same plan may admit.
  using OnAdmit = std::function<void(const Sequence&)>;
  StepPlan plan(const OnAdmit& on_admit = {});

  // Call this after `plan` is launched. From now on its chunks count as computed, and each chunk
  // that completes appends a placeholder token to its sequence. When the prompt of several samples
  // completes, the other samples are forked; a sample without room waits and computes the prompt
  // again. A sequence whose last token this step draws releases its lease now, for the next plan().
  // Skips sequences that have ended since plan(). REQUIRES: the plan before is committed.
  void advance(const StepPlan& plan);

  // The sequence of a chunk or a draw; null if it has ended.
  const Sequence* find(const Chunk& chunk) const { return find(chunk.age, chunk.sample); }
  const Sequence* find(const Draw& draw) const { return find(draw.age, draw.sample); }

  // The sequences of a plan's chunks, in order, until the next call of a function that is not
  // const. REQUIRES: none has ended.
  std::vector<const Sequence*> sequences_of(const StepPlan& plan) const;

  struct Committed {
    std::vector<Sequence> finished = {};  // with closed leases
    int num_surplus = 0;                  // tokens that were dropped
  };

  // Replaces the placeholder tokens of an advanced plan by `drawn`, which has one token for each
  // draw, and calls `end_of` for each sequence that got a token. The caller reads the scores. A
  // sequence that only scores its prompt is finished when all of it is scored. Drops the tokens of
  // sequences that have ended, and the tokens after a wrong guess. The search replaces its beams by
  // the best continuations, which it finds in the candidates of `drawn`; they fork from their
  // parents. Without room for that the search is preempted. A search that ends, here or by abort(),
  // becomes one sequence, with `found_beams`. REQUIRES: `end_of` ends each sequence at its
  // max_tokens or before.
  Committed commit(const StepPlan& plan, std::span<const DrawnToken> drawn, const EndOf& end_of,
                   const RolesOf& roles_of = {});

  // Removes the chunks of sequences that have ended since plan(). REQUIRES: the plan is not
  // advanced.
  void erase_finished(StepPlan& plan) const;

  // Removes and returns the sequences of `plan` that have not ended, and the samples that its
  // advance() forked. Closes their leases and withdraws the blocks that the step should have
  // filled. The plan may be advanced or not. REQUIRES: a later plan has been aborted before.
  std::vector<Sequence> abort(const StepPlan& plan);

  // Removes all sequences and closes their leases.
  void clear();

  // The leases of all sequences, for an audit of the pool. Valid until the next call of a function
  // that is not const.
  std::vector<const KvLease*> leases() const;

  const SchedulerLimits& limits() const { return limits_; }
  const GroupQueue& running() const { return running_; }
  const GroupQueue& waiting() const { return waiting_; }
  // In sequences.
  int num_running() const { return running_.num_sequences(); }
  int num_waiting() const { return waiting_.num_sequences(); }
  // The use of the cache after the planned step has filled its positions.
  CacheUse cache_use() const;

 private:
  bool batch_is_filling() const;
  void serve_decodes(StepPlan& plan);
  void continue_prompts(StepPlan& plan);
  void admit(StepPlan& plan, const OnAdmit& on_admit);
  bool catch_up(SequenceGroup& group, int num_places, StepPlan& plan);
  int next_chunk(const StepPlan& plan, int end, int num_pending) const;
  int cut_scores(const Sequence& seq, int count, int max_scores) const;
  void cut_drafts(Sequence& seq, int budget);
  int preempt(GroupQueue::iterator it);
  void leave(GroupQueue::iterator it);
  void fork_sample(const Sequence& parent, const Draw& draw, TokenId placeholder);
  GroupQueue* queue_of(Age age);
  const Sequence* find(Age age, int sample) const;

  KvPool& pool_;
  const SchedulerLimits limits_;
  const int max_draws_;  // of a step, scores included
  const int reserve_;    // in positions
  bool batch_ended_ = false, input_ended_ = false;
  bool must_commit_ = false;           // before the next plan()
  int64_t num_submitted_ = 0;          // requests
  int64_t num_held_back_ = 0;          // as hold_back()
  ShareScope last_scope_ = kShareAll;  // that was given to a request
  std::vector<KvCopy> fork_copies_;    // for the next plan()
  GroupQueue waiting_;                 // hold no lease
  GroupQueue running_;  // hold a lease for all their known tokens but, at most, the last
  GroupQueue leaving_;  // hold no lease: their last token is a placeholder
};

}  // namespace pagedinfer
