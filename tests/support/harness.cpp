#include "tests/support/harness.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "tests/support/plan_rules.h"
#include "tests/support/sanitized.h"

namespace pagedinfer {

void Counters::print_and_require(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    std::printf("  %-24s %9ld\n", name, of[name]);
    if (!kSanitized) CHECK_MESSAGE(of[name] > 0, std::string(name));
  }
}

std::vector<int32_t> unwritten_slots(const StepPlan& plan, PlanSequences sequences,
                                     int block_size) {
  std::vector<int32_t> slots;
  for (size_t i = 0; i < plan.chunks.size(); ++i) {
    const KvLease& lease = sequences[i]->lease;
    const int64_t end = static_cast<int64_t>(lease.block_table.size()) * block_size;
    const int start = std::max(plan.chunks[i].start, lease.num_cached);
    for (int p = start; p < end; ++p) slots.push_back(lease.slot(p, block_size));
  }
  return slots;
}

void check_books(const KvPool& pool, const Scheduler& scheduler) {
  pool.check_invariants();
  std::vector<const KvLease*> active;
  std::unordered_set<int32_t> held;
  for (const Sequence* const seq : sequences_of(scheduler.running())) {
    const KvLease& lease = seq->lease;
    active.push_back(&lease);
    for (int p = 0; p < seq->num_held(); ++p) held.insert(lease.slot(p, pool.block_size()));
    const int64_t room = static_cast<int64_t>(lease.block_table.size()) * pool.block_size();
    REQUIRE(seq->num_computed < seq->num_known());
    REQUIRE(seq->num_known() - 1 <= room);
  }
  for (const Sequence* const seq : sequences_of(scheduler.waiting())) {
    REQUIRE(seq->lease.block_table.empty());
    REQUIRE(seq->num_computed == 0);
  }
  REQUIRE(pool.num_leaked(active) == 0);
  const CacheUse use = scheduler.cache_use();
  REQUIRE(use.tokens_held == std::ssize(held));
  const KvStats stats = pool.stats();
  REQUIRE(use.tokens_held <= stats.positions_leased);
  REQUIRE(stats.num_leased * pool.block_size() == stats.positions_leased);
  const int64_t num_free =
      stats.positions_total - stats.positions_leased - stats.positions_reusable;
  REQUIRE(pool.free_tokens().value_or(num_free) == num_free + stats.positions_reusable);
}

namespace {

// One run. The bound on waiting: every step computes, for good, at least one token of the oldest
// running sequence. So a request ends within as many steps as there are tokens in it and in the
// unfinished ones before it; and, where a sample that finds no room is overtaken, in those that
// run at most meanwhile.
class Run {
 public:
  Run(KvPool& pool, const SchedulerLimits& limits, TokenId stop, const Device& device,
      Counters& counters, Overlap overlap, const Drafter& drafter)
      : pool_(pool),
        limits_(limits),
        stop_(stop),
        device_(device),
        counters_(counters),
        overlaps_(overlap == Overlap::kYes),
        drafter_(drafter),
        scheduler_(pool, limits) {}

  Outcome finish(const std::vector<Arrival>& arrivals) {
    for (int time = 0; next_ < arrivals.size() || !scheduler_.idle() || in_flight_; ++time) {
      take(arrivals, time);
      draft();
      ran_before_ = ids_of(scheduler_.running());
      const StepPlan plan = scheduler_.plan();
      const std::vector<const Sequence*> sequences = scheduler_.sequences_of(plan);
      build_batch(plan, sequences, pool_.block_size(), batch_);
      if (plan.chunks.empty()) retire_in_flight();
      check_progress(plan, next_ == arrivals.size());
      if (plan.chunks.empty()) continue;
      check_plan(plan, batch_, {pool_, scheduler_, limits_, ran_before_});
      count(plan, sequences);
      compute(plan, sequences);
      check_books(pool_, scheduler_);
      for (const auto& [age, last_step] : deadline_) REQUIRE(step_ <= last_step);
    }
    REQUIRE(unfinished_.empty());
    REQUIRE(pool_.stats().positions_leased == 0);
    REQUIRE(computed_ == accounted_ + num_surplus_);
    REQUIRE((overlaps_ || drafter_ || num_surplus_ == 0));
    counters_.of["evictions"] += pool_.stats().num_evicted;
    ++counters_.of["runs"];
    return std::move(outcome_);
  }

 private:
  void take(const std::vector<Arrival>& arrivals, int time) {
    for (; next_ < arrivals.size() && arrivals[next_].step <= time; ++next_) {
      const Request& request = arrivals[next_].request;
      const int width = request.sampling.beams.width;
      if (!scheduler_.fits({&request, 1})) {
        outcome_.refused.insert(request.random_key);
        ++counters_.of["refused"];
        continue;
      }
      if (scheduler_.window_full()) return;
      const Age first = scheduler_.submit(request);
      const Sequence& seq = scheduler_.waiting().at(first).members.front();
      may_overtake_ = may_overtake_ || request.num_samples > 1 || width > 1;
      for (int sample = 0; sample < request.num_samples; ++sample) {
        const Age age = {first.request, sample};
        unfinished_[age] = seq.max_tokens - !overlaps_;  // a surplus one at the end
        // Reservations may be missing when the beams fork.
        if (width > 1) unfinished_[age] = 2 * width * seq.max_tokens;
      }
      int64_t bound = overlaps_;  // its last token is seen a step later
      for (const auto& [other, tokens] : unfinished_) bound += tokens;
      if (may_overtake_) bound += int64_t{limits_.max_running} * limits_.max_model_len;
      for (int sample = 0; sample < request.num_samples; ++sample) {
        deadline_[{first.request, sample}] = step_ + bound;
      }
    }
    if (next_ == arrivals.size()) scheduler_.end_input();
  }

  void draft() {
    if (!drafter_) return;
    for (const Sequence* const seq : sequences_of(scheduler_.running())) {
      if (!seq->is_decoding() || seq->tokens.back() < 0) continue;
      std::vector<TokenId> tokens = drafter_(*seq);
      const int room = seq->max_tokens - seq->num_known() - 1;
      tokens.resize(std::min(tokens.size(), static_cast<size_t>(room)));
      scheduler_.draft(seq->age, tokens);
    }
  }

  void check_progress(const StepPlan& plan, bool input_ended) {
    REQUIRE(scheduler_.may_wait_for_input() <= plan.chunks.empty());
    if (!plan.chunks.empty()) return;
    REQUIRE(scheduler_.running().empty());
    REQUIRE((limits_.batching == Batching::kStatic || scheduler_.idle()));
    REQUIRE((!input_ended || scheduler_.idle()));
  }

  void count(const StepPlan& plan, PlanSequences sequences) {
    for (size_t i = 0; i < plan.chunks.size(); ++i) {
      const Sequence& seq = *sequences[i];
      const int end = plan.chunks[i].start + plan.chunks[i].count;
      counters_.of["resumed chunks"] += !is_new(seq) && !seq.is_decoding();
      counters_.of["partly filled blocks"] += end % pool_.block_size() != 0;
      counters_.of["same-step admissions"] += is_new(seq) && held_back_.contains(seq.age);
      counters_.of["readmissions"] += is_new(seq) && seq.num_preemptions > 0;
      counters_.of["late samples"] += is_new(seq) && seq.num_preemptions == 0 && seq.sample > 0;
      counters_.of["verified drafts"] += seq.num_drafted;
      counters_.of["full hits"] += plan.chunks[i].start < seq.lease.num_cached;
      counters_.of["late hits"] += plan.chunks[i].start > 0 && seq.lease.num_cached > 0 &&
                                   !is_new(seq) && plan.chunks[i].start == seq.lease.num_cached;
    }
    counters_.of["mixed steps"] += plan.num_decodes > 0 && plan.num_prefills() > 0;
    counters_.of["tokens found"] += plan.num_found;
    counters_.of["blocks published"] += std::ssize(plan.published);
    counters_.of["shared steps"] += pool_.stats().positions_saved > 0;
    counters_.of["copies"] += std::ssize(plan.copies);
    counters_.of["preemptions"] += plan.num_preempted;
    counters_.of["tokens"] += plan.num_tokens;
    counters_.of["steps"] += 1;
  }

  struct Flight {
    StepPlan plan;
    std::vector<DrawnToken> tokens;
  };

  void compute(StepPlan plan, PlanSequences sequences) {
    ++step_;
    held_back_.clear();
    const bool on_top = in_flight_.has_value();
    std::vector<DrawnToken> tokens;
    try {
      tokens = device_(plan, sequences, batch_);
    } catch (const StepFailed&) {
      retire_in_flight();
      scheduler_.erase_finished(plan);
      counters_.of["failures on top"] += on_top;
      abort(plan);
      return;
    }
    REQUIRE(tokens.size() == plan.draws.size());
    REQUIRE((on_top || std::ranges::all_of(batch_.tokens, [](TokenId t) { return t >= 0; })));
    counters_.of["overlapping steps"] += on_top;
    for (const Chunk& chunk : plan.chunks) computed_ += chunk.is_beam ? 0 : chunk.count;
    retire_in_flight();
    const int num_unfinished = scheduler_.num_running() + scheduler_.num_waiting();
    scheduler_.advance(plan);
    for (const Sequence* const seq : sequences_of(scheduler_.waiting())) {
      if (seq->tokens.back() < 0) waited_with_placeholder_.insert(seq->age);
    }
    counters_.of["forks"] += scheduler_.num_running() + scheduler_.num_waiting() > num_unfinished;
    const bool may_overlap = overlaps_ && plan.may_overlap;
    in_flight_ = {std::move(plan), std::move(tokens)};
    if (!may_overlap) retire_in_flight();
  }

  void abort(const StepPlan& plan) {
    Ages groups;
    for (const Chunk& chunk : plan.chunks) groups.insert(chunk.age);
    const std::vector<Sequence> aborted = scheduler_.abort(plan);
    REQUIRE(aborted.size() == groups.size());
    for (const Sequence& seq : aborted) {
      REQUIRE(seq.tokens.back() >= 0);
      for (int i = 0; i < seq.num_samples(); ++i) {
        outcome_.failed.insert({seq.request->random_key, seq.sample + i});
      }
      done(seq);
      ++counters_.of["failed"];
    }
  }

  void retire_in_flight() {
    if (!in_flight_) return;
    const Flight flight = *std::exchange(in_flight_, std::nullopt);
    for (const Draw& draw : flight.plan.draws) {
      // A surplus draw belongs to a decode, or to the prompt of a sample that waited for room with
      // a placeholder token.
      const Chunk& chunk = flight.plan.chunks[draw.chunk];
      if (scheduler_.find(draw) != nullptr) continue;
      REQUIRE((chunk.count == 1 || waited_with_placeholder_.contains(draw.age)));
      computed_ -= chunk.count - 1;  // for nothing; the last token counts as a surplus row
    }
    for (size_t i = 0; i < flight.tokens.size(); ++i) {
      const Draw& draw = flight.plan.draws[i];
      if (!draw.scores) continue;
      const Request& request = *scheduler_.find(draw)->request;
      REQUIRE(outcome_.scores
                  .emplace(std::pair(request.random_key, draw.position), flight.tokens[i].token)
                  .second);  // once, also after a preemption
      ++counters_.of["scores"];
    }
    const Scheduler::Committed committed = scheduler_.commit(
        flight.plan, flight.tokens,
        [&](const Sequence& seq, const DrawnToken& token) { return end_of(seq, token.token); },
        [&](const Sequence&) {
          return [this](const Beam&, TokenId token) {
            return token == stop_ ? TokenRole::kEnds : TokenRole::kGoesOn;
          };
        });
    num_surplus_ += committed.num_surplus;
    counters_.of["surplus rows"] += committed.num_surplus;
    if (!committed.finished.empty()) held_back_ = ages_of(scheduler_.waiting());
    for (const Sequence& seq : committed.finished) {
      done(seq);
      for (size_t i = 0; i < seq.found_beams.size(); ++i) {
        const SampleId id = {seq.request->random_key, static_cast<int>(i)};
        REQUIRE(outcome_.answers.emplace(id, seq.found_beams[i].tokens).second);
      }
      counters_.of["searches"] += seq.is_beam();
      if (seq.is_beam()) continue;
      const auto generated = seq.generated();
      const SampleId id = {seq.request->random_key, seq.sample};
      REQUIRE(outcome_.answers.emplace(id, std::vector(generated.begin(), generated.end())).second);
    }
  }

  std::optional<FinishReason> end_of(const Sequence& seq, TokenId token) {
    REQUIRE(seq.tokens[seq.num_known() - 1] == token);
    if (seq.is_beam()) return std::nullopt;
    if (token == stop_) {
      counters_.of["ended while waiting"] += scheduler_.waiting().contains(seq.age);
      return FinishReason::kStop;
    }
    if (seq.num_known() == seq.max_tokens) return FinishReason::kLength;
    return std::nullopt;
  }

  // Every token is computed once, and again only if a preemption lost it. The first sample of a
  // prompt computes it.
  void done(const Sequence& seq) {
    REQUIRE(seq.lease.block_table.empty());
    REQUIRE((seq.num_preemptions > 0 || seq.sample > 0 || seq.num_recomputed == 0));
    const int64_t inherited = seq.sample > 0 ? seq.num_prompt() : 0;
    if (!seq.is_beam()) {
      accounted_ += seq.max_computed - seq.num_found + seq.num_recomputed - inherited;
    }
    counters_.of["preempted searches"] += seq.is_beam() && seq.num_preemptions > 0;
    for (int i = 0; i < seq.num_samples(); ++i) {
      const Age age = {seq.age.request, seq.age.sample + i};
      REQUIRE(step_ <= deadline_.at(age));
      REQUIRE(unfinished_.erase(age) == 1);
      deadline_.erase(age);
    }
  }

  bool is_new(const Sequence& seq) const { return !ran_before_.contains(id_of(seq)); }

  KvPool& pool_;
  const SchedulerLimits& limits_;
  TokenId stop_;
  const Device& device_;
  Counters& counters_;
  const bool overlaps_;
  const Drafter& drafter_;
  Scheduler scheduler_;
  Batch batch_;
  Outcome outcome_;
  std::map<Age, int64_t> unfinished_, deadline_;  // tokens to compute, last step
  std::set<SequenceId> ran_before_;               // in the step before this one
  Ages held_back_;                                // waited while another one finished
  Ages waited_with_placeholder_;                  // waited with a placeholder token
  bool may_overtake_ = false;                     // there are requests of several samples
  size_t next_ = 0;
  int64_t step_ = 0;  // steps that computed something
  int64_t computed_ = 0, accounted_ = 0, num_surplus_ = 0;
  std::optional<Flight> in_flight_;
};

}  // namespace

Outcome drive(KvPool& pool, const SchedulerLimits& limits, const std::vector<Arrival>& arrivals,
              TokenId stop, const Device& device, Counters& counters, Overlap overlap,
              const Drafter& drafter) {
  return Run(pool, limits, stop, device, counters, overlap, drafter).finish(arrivals);
}

}  // namespace pagedinfer
