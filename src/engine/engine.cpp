#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "engine/token_bans.h"
#include "sched/batch_builder.h"

namespace pagedinfer {
namespace {

constexpr int kTriesPerStep = 2;

// "" or what went wrong.
template <class F>
std::string try_once(StepStats& stats, const F& f) {
  try {
    f();
    return "";
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    ++stats.failures;
    return fmt::format("a step failed {} times, at last with: {}", stats.failures, error.what());
  }
}

// Frees every lease when it goes, so that a run that ends early leaks nothing.
struct ClearAtEnd {
  Scheduler& scheduler;
  ~ClearAtEnd() { scheduler.clear(); }
};

}  // namespace

void Engine::run(const EnginePorts& ports) {
  const ClearAtEnd clear{scheduler_};
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

// Waits for input only when there is nothing to compute: nothing runs or is in flight, and what
// waits, if anything, is a static batch that is still filling.
bool Engine::fill_window(const EnginePorts& ports) {
  while (!input_ended_ && !scheduler_.window_full()) {
    const bool batch_is_filling =
        limits_.batching == Batching::kStatic || scheduler_.num_waiting() == 0;
    IntakeItem item;
    const bool is_idle = scheduler_.num_running() == 0 && !in_flight_;
    switch (ports.next(is_idle && batch_is_filling, item)) {
      case Intake::Pull::kItem: submit(std::move(item), ports); break;
      case Intake::Pull::kLater: return true;
      case Intake::Pull::kEnded: input_ended_ = true; scheduler_.end_input();
    }
  }
  return !input_ended_;
}

// Retires the step before while the device computes the step that is launched here.
void Engine::step(const EnginePorts& ports) {
  Step next{.stats = {.begin = parts_.clock()}};
  next.plan = scheduler_.plan();
  if (next.plan.chunks.empty()) return retire_in_flight(nullptr, ports);
  build_batch(next.plan, parts_.pool.block_size(), batch_);
  next.stats.times.plan = parts_.clock() - next.stats.begin;
  for (const Chunk& chunk : next.plan.chunks) {
    double& admitted = progress_.at(chunk.age).timing.admitted;
    if (admitted == 0) admitted = next.stats.begin;
  }

  const std::string failure = launch(next, ports);
  describe(next);
  if (!failure.empty()) {
    const double now = parts_.clock();
    return end(next, scheduler_.abort(next.plan), failure, now, ports);
  }
  retire_in_flight(&next.plan, ports);
  scheduler_.advance(next.plan);
  in_flight_ = std::move(next);
  if (!parts_.overlaps) retire_in_flight(nullptr, ports);
}

// The second try uses no placeholder tokens: after a failure it is not certain which sample() was
// the latest.
std::string Engine::launch(Step& step, const EnginePorts& ports) {
  std::string failure;
  while (step.stats.failures < kTriesPerStep) {
    failure = try_once(step.stats, [&] { compute(step); });
    if (failure.empty()) break;
    if (!in_flight_) continue;
    retire_in_flight(&step.plan, ports);
    scheduler_.erase_finished(step.plan);
    build_batch(step.plan, parts_.pool.block_size(), batch_);
  }
  return failure;
}

// Collects and commits the step in flight, if there is one, and answers what finished with it. If
// its tokens cannot be collected, `next`, planned from its placeholder tokens, is aborted too.
void Engine::retire_in_flight(const StepPlan* next, const EnginePorts& ports) {
  if (!in_flight_) return;
  Step step = *std::exchange(in_flight_, std::nullopt);
  const std::string failure = collect(step);
  const double now = parts_.clock();
  if (!failure.empty()) {
    std::vector<Sequence> aborted = scheduler_.abort(step.plan);
    if (next != nullptr) std::ranges::move(scheduler_.abort(*next), back_inserter(aborted));
    return end(step, std::move(aborted), failure, now, ports);
  }
  size_t row = 0;
  sampled_.clear();
  for (const Chunk& chunk : step.plan.chunks) {
    if (!chunk.completes) continue;
    const TokenId token = drawn_[row++];
    const Sequence* const seq = scheduler_.find(chunk.age);
    step.stats.num_surplus += seq == nullptr;
    sampled_.push_back(seq == nullptr ? Scheduler::Sampled{token} : on_token(*seq, token, now));
  }
  end(step, scheduler_.commit(step.plan, sampled_), failure, now, ports);
}

// Copies what the step drew to drawn_.
std::string Engine::collect(Step& step) {
  std::string failure;
  drawn_.resize(static_cast<size_t>(step.stats.num_sampled));
  while (step.ticket && step.stats.failures < kTriesPerStep) {
    failure = try_once(step.stats, [&] {
      const double begin = parts_.clock();
      parts_.steps.collect(*step.ticket, drawn_);
      step.stats.times.sample += parts_.clock() - begin;
    });
    if (failure.empty()) break;
  }
  return failure;
}

void Engine::compute(Step& step) {
  step.ticket.reset();
  if (step.plan.chunks.empty()) return;
  const double begin = parts_.clock();
  const BatchView view = parts_.steps.stage(batch_);
  const double staged = parts_.clock();
  const Tensor logits = parts_.steps.run(view, [&] {
    return forward(parts_.spec, parts_.weights, parts_.cache, view, parts_.steps,
                   parts_.arithmetic);
  });
  const double computed = parts_.clock();
  step.ticket = sample(step.plan, logits);
  step.stats.times.stage = staged - begin;
  step.stats.times.forward = computed - staged;
  step.stats.times.sample = parts_.clock() - computed;
}

// At launch: sequences that finish with the step still hold their memory.
void Engine::describe(Step& step) const {
  const StepPlan& plan = step.plan;
  StepStats& stats = step.stats;
  const KvStats kv = parts_.pool.stats();
  stats.num_tokens = plan.num_tokens;
  stats.num_decodes = plan.num_decodes;
  stats.num_prefill_tokens = plan.num_tokens - plan.num_decodes;
  stats.num_sampled = batch_.num_logits();
  stats.running = scheduler_.num_running();
  stats.waiting = scheduler_.num_waiting();
  stats.admitted = plan.num_admitted;
  stats.preempted = plan.num_preempted;
  stats.positions_total = kv.positions_total;
  stats.positions_leased = kv.positions_leased;
  stats.blocks_used = kv.positions_leased / parts_.pool.block_size();
  const CacheUse use = scheduler_.cache_use();
  stats.tokens_held = use.tokens_held + plan.num_tokens;
  stats.positions_contiguous = use.positions_contiguous;
}

// One token for each row of logits.
std::optional<StepProtocol::Ticket> Engine::sample(const StepPlan& plan, Tensor logits) {
  rows_.clear();
  banned_.clear();
  banned_.reserve(plan.chunks.size());  // rows_ points into it
  for (const Chunk& chunk : plan.chunks) {
    if (!chunk.completes) continue;
    const Sequence& seq = *chunk.seq;
    const SamplingParams& params = seq.request.sampling;
    const std::span<const TokenId> tokens = seq.tokens;
    const size_t num_prompt = seq.request.prompt.size();
    SampleRow row = {.params = &params,
                     .prompt = tokens.first(num_prompt),
                     .generated = tokens.subspan(num_prompt),
                     .key = seq.request.random_key,
                     .position = static_cast<uint32_t>(seq.num_known())};
    limit_choice(seq, row);
    rows_.push_back(row);
  }
  if (rows_.empty()) return std::nullopt;
  return parts_.steps.sample(logits, rows_);
}

// Depends on the position in the completion alone: the token before it may be a placeholder.
void Engine::limit_choice(const Sequence& seq, SampleRow& row) {
  const ModelSpec& spec = parts_.spec;
  const SamplingParams& params = seq.request.sampling;
  if (ends_by_force(seq, seq.num_known() + 1)) {
    row.allowed = {&*spec.forced_end, 1};
    return;
  }
  row.allowed = params.allowed_token_ids;
  const auto& banned = banned_.emplace_back(banned_tokens(spec, params, seq.num_generated()));
  row.banned = banned;
}

// Whether the token that makes a sequence so long is the model's end whatever the logits say.
bool Engine::ends_by_force(const Sequence& seq, int length) const {
  return parts_.spec.forced_end && !seq.request.sampling.ignore_eos && length == seq.max_tokens;
}

}  // namespace pagedinfer
