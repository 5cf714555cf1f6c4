#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "core/error.h"
#include "engine/token_bans.h"
#include "sched/batch_builder.h"

namespace pagedinfer {
namespace {

constexpr int kTriesPerStep = 2;

// Calls f. Returns its error, but passes DeviceLost on.
template <class F>
Result<> try_once(StepStats& stats, const F& f) {
  try {
    f();
    return {};
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    ++stats.failures;
    return {"step_failed",
            fmt::format("a step failed {} times, at last with: {}", stats.failures, error.what())};
  }
}

// Frees every lease on destruction, so that a run that ends early leaks nothing.
struct ClearAtEnd {
  Scheduler& scheduler;
  ~ClearAtEnd() { scheduler.clear(); }
};

}  // namespace

void Engine::run(const EnginePorts& ports) {
  {
    const ClearAtEnd clear{scheduler_};
    run_steps(ports);
  }
  audit(ports);
}

void Engine::run_steps(const EnginePorts& ports) {
  while (!ports.interrupted()) {
    const bool input_open = fill_window(ports);
    if (!scheduler_.idle() || in_flight_) {
      step(ports);
    } else if (!input_open) {
      return;
    }
  }
  retire_in_flight(nullptr, ports);
}

// Waits for lines only if there is nothing to compute, and for arrivals only if no batch is being
// filled either.
Wait Engine::how_to_wait() const {
  if (in_flight_ || !scheduler_.may_wait_for_input()) return Wait::kNo;
  return scheduler_.num_waiting() == 0 ? Wait::kForArrival : Wait::kForLine;
}

bool Engine::fill_window(const EnginePorts& ports) {
  while (!scheduler_.input_ended() && !scheduler_.window_full()) {
    EngineLine line;
    switch (ports.next(how_to_wait(), line)) {
      case Pull::kItem: requests_.submit(std::move(line), parts_.clock(), ports.done); break;
      case Pull::kLater: return true;
      case Pull::kNotArrived: scheduler_.end_batch(); return true;
      case Pull::kEnded: scheduler_.end_input();
    }
  }
  return !scheduler_.input_ended();
}

// Launches the next step, and retires the step before it while the device computes.
void Engine::step(const EnginePorts& ports) {
  Step next{.stats = {.begin = parts_.clock()}};
  next.plan = scheduler_.plan([this](const Sequence& seq) { requests_.on_admit(seq); });
  flatten(next.plan);
  next.stats.times.plan = parts_.clock() - next.stats.begin;
  for (const Sequence* const seq : scheduler_.sequences_of(next.plan)) {
    requests_.on_step(*seq, next.stats.begin);
  }
  const bool computes = !next.plan.chunks.empty();
  const Result<> launched = launch(next, ports);
  if (!computes) return;
  if (!launched) {
    const double now = parts_.clock();
    return end(next, scheduler_.abort(next.plan), launched, now, ports);
  }
  scheduler_.advance(next.plan);
  const bool overlaps = parts_.overlaps && next.plan.may_overlap;
  in_flight_ = std::move(next);
  if (!overlaps) retire_in_flight(nullptr, ports);
}

// Queues the step and retires the step before it: after the draws are queued or, if they depend on
// its tokens, before. The second try uses no placeholder tokens, because after a failure it is
// uncertain which sample() was the latest.
Result<> Engine::launch(Step& step, const EnginePorts& ports) {
  Result<> queued;
  while (step.stats.failures < kTriesPerStep) {
    const bool draws_late = step.plan.is_guided && in_flight_;
    Tensor logits;
    queued = try_once(step.stats, [&] {
      logits = queue_forward(step);
      if (!draws_late) queue_draws(step, logits);
    });
    describe(step);
    retire_in_flight(&step.plan, ports);
    if (queued && draws_late) queued = try_once(step.stats, [&] { queue_draws(step, logits); });
    if (queued) break;
    scheduler_.erase_finished(step.plan);
    flatten(step.plan);
  }
  return queued;
}

void Engine::flatten(const StepPlan& plan) {
  build_batch(plan, scheduler_.sequences_of(plan), parts_.pool.block_size(), batch_);
}

// Collects and commits the step in flight, if there is one, and answers the requests that finished
// with it. If its tokens cannot be collected, `next` is aborted too, because it was planned from
// their placeholders.
void Engine::retire_in_flight(const StepPlan* next, const EnginePorts& ports) {
  if (!in_flight_) return;
  Step step = *std::exchange(in_flight_, std::nullopt);
  const Result<> collected = collect(step);
  const double now = parts_.clock();
  if (!collected) {
    std::vector<Sequence> aborted;
    if (next != nullptr) aborted = scheduler_.abort(*next);
    std::ranges::move(scheduler_.abort(step.plan), back_inserter(aborted));
    return end(step, std::move(aborted), collected, now, ports);
  }
  for (size_t i = 0; i < step.plan.draws.size(); ++i) {
    const Draw& draw = step.plan.draws[i];
    const Sequence* const seq = draw.scores ? scheduler_.find(draw) : nullptr;
    if (seq != nullptr) requests_.on_prompt_token(*seq, draw.position, drawn_[i]);
  }
  force_ends(step.plan);
  Scheduler::Committed committed = scheduler_.commit(
      step.plan, drawn_,
      [&](const Sequence& seq, const DrawnToken& token) {
        return requests_.on_token(seq, token, now);
      },
      [&](const Sequence& beam) { return requests_.roles_in_beam(beam); });
  step.stats.num_surplus = committed.num_surplus;
  end(step, std::move(committed.finished), collected, now, ports);
}

// Makes a forced end the beam's only candidate, with log probability 0.
void Engine::force_ends(const StepPlan& plan) {
  const ModelSpec& spec = parts_.spec;
  for (size_t row = 0; row < plan.draws.size() && spec.forced_end; ++row) {
    const Sequence* const seq = scheduler_.find(plan.draws[row]);
    if (seq == nullptr || !seq->is_beam()) continue;
    if (!ends_by_force(spec, *seq, plan.draws[row].position + 1)) continue;
    drawn_[row].candidates = {{*spec.forced_end, 0.0f}};
  }
}

// Copies the step's drawn tokens to drawn_.
Result<> Engine::collect(Step& step) {
  Result<> result;
  drawn_.resize(step.plan.draws.size());
  while (step.ticket && step.stats.failures < kTriesPerStep) {
    result = try_once(step.stats, [&] {
      const double begin = parts_.clock();
      parts_.steps.collect(*step.ticket, drawn_);
      step.stats.times.sample += parts_.clock() - begin;
    });
    if (result) break;
  }
  return result;
}

Tensor Engine::queue_forward(Step& step) {
  step.ticket.reset();
  rows_.clear();
  if (step.plan.chunks.empty()) return {};
  const double begin = parts_.clock();
  if (!step.plan.is_guided) {
    make_rows(step.plan);
    parts_.steps.expect(rows_);
  }
  const BatchView view = parts_.steps.stage(batch_);
  if (!view.copies.empty()) {
    step.stats.num_copies = static_cast<int>(view.copies.size());
    parts_.steps.copy_kv(view, parts_.cache);
    step.plan.copies.clear();  // not again when the step is tried again
    batch_.copies.clear();
  }
  const double staged = parts_.clock();
  const Tensor logits = parts_.steps.run(view, [&] {
    return forward(parts_.spec, parts_.weights, parts_.cache, view, parts_.steps,
                   parts_.arithmetic);
  });
  step.stats.times.stage = staged - begin;
  step.stats.times.forward = parts_.clock() - staged;
  return logits;
}

void Engine::queue_draws(Step& step, Tensor logits) {
  const double begin = parts_.clock();
  if (step.plan.is_guided) make_rows(step.plan);
  if (!rows_.empty()) step.ticket = parts_.steps.sample(logits, rows_);
  step.stats.times.sample = parts_.clock() - begin;
}

// REQUIRES: the step is launched and not retired, so that sequences that finish with it still hold
// their memory.
void Engine::describe(Step& step) const {
  const StepPlan& plan = step.plan;
  StepStats& stats = step.stats;
  stats.num_tokens = plan.num_tokens;
  stats.num_decodes = plan.num_decode_tokens;
  stats.num_prefill_tokens = plan.num_tokens - plan.num_decode_tokens;
  stats.num_sampled = static_cast<int>(plan.draws.size()) - plan.num_scores;
  stats.running = scheduler_.num_running();
  stats.waiting = scheduler_.num_waiting();
  stats.admitted = plan.num_admitted;
  stats.preempted = plan.num_preempted;
  stats.tokens_found = plan.num_found;
  stats.pool = parts_.pool.stats();
  stats.cache = scheduler_.cache_use();
}

void Engine::make_rows(const StepPlan& plan) {
  banned_.clear();
  banned_.reserve(plan.draws.size());  // rows_ points into it
  make_masks(plan);
  for (size_t i = 0; i < plan.draws.size(); ++i) {
    const Draw& draw = plan.draws[i];
    const Sequence* const found = scheduler_.find(plan.chunks[draw.chunk]);
    if (found == nullptr) {  // a surplus row
      static const SamplingParams kAny;
      rows_.push_back({.params = &kAny, .logits_row = draw.logits_row});
      continue;
    }
    const Sequence& seq = *found;
    if (draw.scores) {
      rows_.push_back({.params = &seq.request->sampling,
                       .allowed = std::span(seq.request->prompt).subspan(draw.position, 1),
                       .logits_row = draw.logits_row,
                       .num_log_probs = seq.request->num_prompt_candidates()});
      continue;
    }
    const auto before = std::span(seq.tokens).first(draw.position);
    SampleRow row = {.params = &seq.request->sampling,
                     .prompt = before.first(seq.num_prompt()),
                     .generated = before.subspan(seq.num_prompt()),
                     .key = seq.request->random_key,
                     .sample = static_cast<uint32_t>(draw.sample),
                     .position = static_cast<uint32_t>(draw.position),
                     .logits_row = draw.logits_row,
                     .num_log_probs = std::max(seq.request->num_candidates(), parts_.num_traced)};
    if (seq.is_beam()) {
      row.num_log_probs =
          std::min(num_beam_candidates(parts_.spec, *row.params), parts_.spec.vocab);
    }
    limit_choice(seq, draw.position, forms_[i], row);
    rows_.push_back(row);
  }
}

// Makes the masks of draws whose answer must have a form. REQUIRES: the previous step is committed.
void Engine::make_masks(const StepPlan& plan) {
  forms_.assign(plan.draws.size(), nullptr);
  std::vector<FormProgress*> guided;
  for (size_t i = 0; i < plan.draws.size(); ++i) {
    const Draw& draw = plan.draws[i];
    const Sequence* const seq = scheduler_.find(plan.chunks[draw.chunk]);
    if (seq == nullptr || !seq->is_guided() || draw.scores) continue;
    forms_[i] = &requests_.form_of(*seq, draw.sample);
    guided.push_back(forms_[i]);
  }
  if (guided.empty()) return;
  parts_.steps.run_on_host(static_cast<int>(guided.size()),
                           [&](int i) { guided[static_cast<size_t>(i)]->make_mask(); });
}

// Sets the tokens that may be drawn. Without a form they depend only on the position in the
// completion, because the previous token may be a placeholder.
void Engine::limit_choice(const Sequence& seq, int position, FormProgress* form, SampleRow& row) {
  const ModelSpec& spec = parts_.spec;
  const SamplingParams& params = seq.request->sampling;
  if (ends_by_force(spec, seq, position + 1)) {
    row.allowed = {&*spec.forced_end, 1};
    return;
  }
  row.allowed = params.allowed_token_ids;
  const int num_generated = position - seq.num_prompt();
  const bool has_form = form != nullptr && form->is_complete();
  row.banned = banned_.emplace_back(banned_tokens(spec, params, num_generated, has_form));
  if (form == nullptr) return;
  row.mask = form->mask();
  row.candidates_in_mask = seq.is_beam();
}

void Engine::end(Step& step, std::vector<Sequence> finished, const Result<>& result, double now,
                 const EnginePorts& ports) {
  for (Sequence& seq : finished) requests_.finish(std::move(seq), result, now, ports.done);
  step.stats.end = parts_.clock();
  step.stats.times.commit = step.stats.end - now;
  ports.stepped(step.stats);
  if (step.stats.failures > 0) audit(ports);
}

// Frees leaked blocks, which would be lost until the end of the run.
void Engine::audit(const EnginePorts& ports) {
  const std::vector<const KvLease*> leases = scheduler_.leases();
  const int num_leaked = parts_.pool.num_leaked(leases);
  if (num_leaked == 0) return;
  parts_.pool.reclaim(leases);
  ports.leaked(num_leaked);
}

}  // namespace pagedinfer
