#include "tests/support/harness.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tests/support/plan_rules.h"

namespace pagedinfer {

void Counters::print_and_require(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    std::printf("  %-24s %9ld\n", name, of[name]);
    CHECK_MESSAGE(of[name] > 0, std::string(name));
  }
}

std::vector<int32_t> unwritten_slots(const StepPlan& plan, int block_size) {
  std::vector<int32_t> slots;
  for (const Chunk& chunk : plan.chunks) {
    const KvLease& lease = chunk.seq->lease;
    const int64_t end = static_cast<int64_t>(lease.block_table.size()) * block_size;
    for (int p = chunk.start; p < end; ++p) slots.push_back(lease.slot(p, block_size));
  }
  return slots;
}

void check_books(const KvPool& pool, const Scheduler& scheduler) {
  pool.check_invariants();
  std::vector<const KvLease*> active;
  int64_t tokens_held = 0;
  for (const auto& [age, seq] : scheduler.running()) {
    active.push_back(&seq.lease);
    tokens_held += seq.num_computed;
    const int64_t room = static_cast<int64_t>(seq.lease.block_table.size()) * pool.block_size();
    REQUIRE(seq.num_computed < seq.num_known());
    REQUIRE(seq.num_known() - 1 <= room);
  }
  for (const auto& [age, seq] : scheduler.waiting()) {
    REQUIRE(seq.lease.block_table.empty());
    REQUIRE(seq.num_computed == 0);
  }
  REQUIRE(pool.num_leaked(active) == 0);
  const CacheUse use = scheduler.cache_use();
  REQUIRE(use.tokens_held == tokens_held);
  REQUIRE(use.positions_leased == pool.stats().positions_leased);
  REQUIRE(use.tokens_held <= use.positions_leased);
}

namespace {

// One run. The bound on waiting: every step computes at least one token of the oldest sequence,
// which is never preempted. So a request ends within as many steps as it and the unfinished
// requests before it have tokens.
class Run {
 public:
  Run(KvPool& pool, const SchedulerLimits& limits, TokenId stop, const Device& device,
      Counters& counters, Overlap overlap)
      : pool_(pool),
        limits_(limits),
        stop_(stop),
        device_(device),
        counters_(counters),
        overlaps_(overlap == Overlap::kYes),
        scheduler_(pool, limits) {}

  Outcome finish(const std::vector<Arrival>& arrivals) {
    for (int time = 0; next_ < arrivals.size() || !scheduler_.idle() || in_flight_; ++time) {
      take(arrivals, time);
      ran_before_ = ages_of(scheduler_.running());
      const StepPlan plan = scheduler_.plan();
      build_batch(plan, pool_.block_size(), batch_);
      if (plan.chunks.empty()) retire_in_flight();
      check_progress(plan, next_ == arrivals.size());
      if (plan.chunks.empty()) continue;
      check_plan(plan, batch_, {pool_, scheduler_, limits_, ran_before_});
      count(plan);
      compute(plan);
      check_books(pool_, scheduler_);
      for (const auto& [age, last_step] : deadline_) REQUIRE(step_ <= last_step);
    }
    REQUIRE(unfinished_.empty());
    REQUIRE(pool_.stats().positions_leased == 0);
    REQUIRE(computed_ == accounted_ + num_surplus_);
    REQUIRE((overlaps_ || num_surplus_ == 0));
    ++counters_.of["runs"];
    return std::move(outcome_);
  }

 private:
  void take(const std::vector<Arrival>& arrivals, int time) {
    for (; next_ < arrivals.size() && arrivals[next_].step <= time; ++next_) {
      const Request& request = arrivals[next_].request;
      const auto num_prompt = static_cast<int64_t>(request.prompt.size());
      if (scheduler_.refusal(num_prompt, request.sampling.max_tokens)) {
        outcome_.refused.insert(request.head.index);
        ++counters_.of["refused"];
        continue;
      }
      if (scheduler_.window_full()) return;
      scheduler_.submit(request);
      const auto& [age, seq] = *scheduler_.waiting().rbegin();
      unfinished_[age] = seq.max_tokens - !overlaps_;  // a surplus one at the end
      int64_t bound = overlaps_;                       // its last token is seen a step later
      for (const auto& [other, tokens] : unfinished_) bound += tokens;
      deadline_[age] = step_ + bound;
    }
    if (next_ == arrivals.size()) scheduler_.end_input();
  }

  void check_progress(const StepPlan& plan, bool input_ended) {
    if (!plan.chunks.empty()) return;
    REQUIRE(scheduler_.running().empty());
    REQUIRE((limits_.batching == Batching::kStatic || scheduler_.idle()));
    REQUIRE((!input_ended || scheduler_.idle()));
  }

  void count(const StepPlan& plan) {
    for (const Chunk& chunk : plan.chunks) {
      const Sequence& seq = *chunk.seq;
      counters_.of["resumed chunks"] += !is_new(seq) && !seq.is_decoding();
      counters_.of["partly filled blocks"] += (chunk.start + chunk.count) % pool_.block_size() != 0;
      counters_.of["same-step admissions"] += is_new(seq) && held_back_.contains(seq.age);
      counters_.of["readmissions"] += is_new(seq) && seq.num_preemptions > 0;
    }
    counters_.of["mixed steps"] += plan.num_decodes > 0 && plan.num_prefills() > 0;
    counters_.of["preemptions"] += plan.num_preempted;
    counters_.of["tokens"] += plan.num_tokens;
    counters_.of["steps"] += 1;
  }

  struct Flight {
    StepPlan plan;
    std::vector<TokenId> tokens;
  };

  void compute(StepPlan plan) {
    ++step_;
    held_back_.clear();
    const bool on_top = in_flight_.has_value();
    std::vector<TokenId> tokens;
    try {
      tokens = device_(plan, batch_);
    } catch (const StepFailed&) {
      retire_in_flight();
      scheduler_.erase_finished(plan);
      counters_.of["failures on top"] += on_top;
      abort(plan);
      return;
    }
    REQUIRE(static_cast<int>(tokens.size()) == batch_.num_logits());
    REQUIRE((on_top || std::ranges::all_of(batch_.tokens, [](TokenId t) { return t >= 0; })));
    counters_.of["overlapping steps"] += on_top;
    computed_ += plan.num_tokens;
    retire_in_flight();
    scheduler_.advance(plan);
    in_flight_ = {std::move(plan), std::move(tokens)};
    if (!overlaps_) retire_in_flight();
  }

  void abort(const StepPlan& plan) {
    const std::vector<Sequence> aborted = scheduler_.abort(plan);
    REQUIRE(aborted.size() == plan.chunks.size());
    for (const Sequence& seq : aborted) {
      REQUIRE(seq.tokens.back() >= 0);
      done(seq, seq.num_computed);
      outcome_.failed.insert(seq.request.head.index);
      ++counters_.of["failed"];
    }
  }

  void retire_in_flight() {
    if (!in_flight_) return;
    const Flight flight = *std::exchange(in_flight_, std::nullopt);
    const std::vector<Sequence> finished =
        scheduler_.commit(flight.plan, end_where_due(flight.plan, flight.tokens));
    if (!finished.empty()) held_back_ = ages_of(scheduler_.waiting());
    for (const Sequence& seq : finished) {
      done(seq, seq.num_known() - 1);
      const auto generated = seq.generated();
      const bool is_first =
          outcome_.answers
              .emplace(seq.request.head.index, std::vector(generated.begin(), generated.end()))
              .second;
      REQUIRE(is_first);
    }
  }

  std::vector<Scheduler::Sampled> end_where_due(const StepPlan& plan,
                                                const std::vector<TokenId>& tokens) {
    std::vector<Scheduler::Sampled> sampled;
    for (const Chunk& chunk : plan.chunks) {
      if (!chunk.completes) continue;
      const TokenId token = tokens.at(sampled.size());
      sampled.push_back({.token = token});
      const Sequence* const seq = scheduler_.find(chunk.age);
      if (seq == nullptr) {
        REQUIRE(chunk.count == 1);  // only a decode can be of a sequence that has ended
        ++num_surplus_;
        ++counters_.of["surplus rows"];
      } else if (token == stop_) {
        sampled.back().finished = FinishReason::kStop;
        counters_.of["ended while waiting"] += scheduler_.waiting().contains(chunk.age);
      } else if (seq->num_known() == seq->max_tokens) {
        sampled.back().finished = FinishReason::kLength;
      }
    }
    REQUIRE(sampled.size() == tokens.size());
    return sampled;
  }

  // Every token is computed once, and again only where a preemption lost it.
  void done(const Sequence& seq, int num_computed) {
    REQUIRE(seq.lease.block_table.empty());
    REQUIRE((seq.num_preemptions > 0 || seq.num_recomputed == 0));
    accounted_ += num_computed + seq.num_recomputed;
    REQUIRE(step_ <= deadline_.at(seq.age));
    REQUIRE(unfinished_.erase(seq.age) == 1);
    deadline_.erase(seq.age);
  }

  bool is_new(const Sequence& seq) const { return !ran_before_.contains(seq.age); }

  KvPool& pool_;
  const SchedulerLimits& limits_;
  TokenId stop_;
  const Device& device_;
  Counters& counters_;
  const bool overlaps_;
  Scheduler scheduler_;
  Batch batch_;
  Outcome outcome_;
  std::map<int64_t, int64_t> unfinished_, deadline_;  // by age: tokens to compute, last step
  std::set<int64_t> ran_before_;                      // in the step before this one
  std::set<int64_t> held_back_;                       // waited while another one finished
  size_t next_ = 0;
  int64_t step_ = 0;  // steps that computed something
  int64_t computed_ = 0, accounted_ = 0, num_surplus_ = 0;
  std::optional<Flight> in_flight_;
};

}  // namespace

Outcome drive(KvPool& pool, const SchedulerLimits& limits, const std::vector<Arrival>& arrivals,
              TokenId stop, const Device& device, Counters& counters, Overlap overlap) {
  return Run(pool, limits, stop, device, counters, overlap).finish(arrivals);
}

}  // namespace pagedinfer
