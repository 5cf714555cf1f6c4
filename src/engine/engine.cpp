#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "sched/batch_builder.h"

namespace pagedinfer {
namespace {

constexpr int kTriesPerStep = 2;
constexpr TokenId kNoToken = -1;

bool contains(const std::vector<TokenId>& tokens, TokenId token) {
  return std::ranges::find(tokens, token) != tokens.end();
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
    if (!fill_window(ports) && scheduler_.idle()) return;
    if (!scheduler_.idle()) step(ports);
  }
}

// Waits for input only when there is nothing else to do: when nothing runs, and what waits
// (if anything) is a static batch still gathering.
bool Engine::fill_window(const EnginePorts& ports) {
  while (!input_ended_ && !scheduler_.window_full()) {
    const bool gathers = limits_.batching == Batching::kStatic || scheduler_.num_waiting() == 0;
    IntakeItem item;
    switch (ports.next(scheduler_.num_running() == 0 && gathers, item)) {
      case Intake::Pull::kItem: submit(std::move(item), ports); break;
      case Intake::Pull::kLater: return true;
      case Intake::Pull::kEnded: input_ended_ = true; scheduler_.end_input();
    }
  }
  return !input_ended_;
}

void Engine::submit(IntakeItem item, const EnginePorts& ports) {
  const double now = parts_.clock();
  Completion answer;
  if (Request* request = std::get_if<Request>(&item)) {
    const auto num_prompt = static_cast<int>(request->prompt.size());
    std::optional<RequestError> refusal =
        scheduler_.refusal(num_prompt, request->sampling.max_tokens);
    if (!refusal) {
      const int64_t age = scheduler_.submit(std::move(*request));
      progress_[age].timing.submitted = now;
      return;
    }
    answer = {.head = std::move(request->head),
              .num_prompt_tokens = num_prompt,
              .reason = FinishReason::kError,
              .error = std::move(*refusal)};
  } else {
    answer = std::move(std::get<Completion>(item));
  }
  answer.timing = {.submitted = now, .finished = now};
  const RequestRecord record = {.head = answer.head,
                                .error_code = answer.error.code,
                                .submitted = now,
                                .finished = now,
                                .prompt_tokens = answer.num_prompt_tokens};
  ports.done(std::move(answer), record);
}

void Engine::step(const EnginePorts& ports) {
  StepRecord record{.begin = parts_.clock()};
  const StepPlan plan = scheduler_.plan();
  if (plan.chunks.empty()) return;
  build_batch(plan, parts_.pool.block_size(), batch_);
  record.times.plan = parts_.clock() - record.begin;
  for (const Chunk& chunk : plan.chunks) {
    double& admitted = progress_.at(chunk.seq->age).timing.admitted;
    if (admitted == 0) admitted = record.begin;
  }

  const std::string failure = compute(plan, record);
  describe(plan, record);  // while what finishes now still holds its memory
  const double now = parts_.clock();
  std::vector<Sequence> finished;
  if (failure.empty()) {
    scheduler_.advance(plan);
    size_t row = 0;
    sampled_.clear();
    for (const Chunk& chunk : plan.chunks) {
      if (chunk.completes) sampled_.push_back(settle(*chunk.seq, drawn_[row++], now));
    }
    finished = scheduler_.settle(plan, sampled_);
  } else {
    finished = scheduler_.abandon(plan);
  }
  for (Sequence& seq : finished) {
    RequestError error;
    if (!failure.empty()) {
      error = {"step_failed", failure};
    } else if (seq.finished == FinishReason::kError) {
      error = {"no_finite_logits", "the model's logits are not numbers, or all minus infinity"};
    }
    finish(std::move(seq), std::move(error), now, ports);
  }
  record.end = parts_.clock();
  record.times.commit = record.end - now;
  ports.stepped(record);
}

std::string Engine::compute(const StepPlan& plan, StepRecord& record) {
  std::string failure;
  for (int i = 0; i < kTriesPerStep; ++i) {
    try {
      const double begin = parts_.clock();
      const BatchView view = parts_.ops.stage(batch_);
      const double staged = parts_.clock();
      const Tensor logits = forward(parts_.spec, parts_.weights, parts_.cache, view, parts_.ops);
      const double computed = parts_.clock();
      sample(plan, logits);
      record.times.stage += staged - begin;
      record.times.forward += computed - staged;
      record.times.sample += parts_.clock() - computed;
      return "";
    } catch (const DeviceLost&) {
      throw;
    } catch (const std::exception& error) {
      failure =
          fmt::format("a step failed {} times, at last with: {}", kTriesPerStep, error.what());
      ++record.failures;
    }
  }
  return failure;
}

void Engine::describe(const StepPlan& plan, StepRecord& record) const {
  const KvStats kv = parts_.pool.stats();
  record.num_tokens = plan.num_tokens;
  record.num_decodes = plan.num_decodes;
  record.num_prefill_tokens = plan.num_tokens - plan.num_decodes;
  record.num_sampled = static_cast<int>(drawn_.size());
  record.running = scheduler_.num_running();
  record.waiting = scheduler_.num_waiting();
  record.admitted = plan.num_admitted;
  record.preempted = plan.num_preempted;
  record.positions_total = kv.positions_total;
  record.positions_leased = kv.positions_leased;
  record.blocks_used = kv.positions_leased / parts_.pool.block_size();
  const CacheUse use = scheduler_.cache_use();
  record.tokens_held = use.tokens_held + plan.num_tokens;
  record.tokens_served = record.tokens_held;
  record.positions_contiguous = use.positions_contiguous;
}

// One token for each row of logits, into drawn_.
void Engine::sample(const StepPlan& plan, Tensor logits) {
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
    if (seq.num_generated() < params.min_tokens) {
      std::vector<TokenId>& banned = banned_.emplace_back(params.stop_token_ids);
      if (!params.ignore_eos) {
        const auto& eos = parts_.spec.eos_tokens;
        banned.insert(banned.end(), eos.begin(), eos.end());
      }
      row.banned = banned;
    }
    rows_.push_back(row);
  }
  drawn_.resize(rows_.size());
  if (!rows_.empty()) parts_.ops.collect(parts_.ops.sample(logits, rows_), drawn_);
}

// Takes note of a new token and says whether the sequence ends with it.
Scheduler::Sampled Engine::settle(const Sequence& seq, TokenId token, double now) {
  const SamplingParams& params = seq.request.sampling;
  if (token == kNoToken) return {token, FinishReason::kError};
  Progress& progress = progress_.at(seq.age);
  if (progress.token_times.empty()) {
    progress.timing.first_token = now;
    if (parts_.tokenizer != nullptr) progress.text.emplace(*parts_.tokenizer, params.stop);
  }
  progress.token_times.push_back(now);
  if (!params.ignore_eos && contains(parts_.spec.eos_tokens, token)) {
    return {token, FinishReason::kStop};
  }
  if (contains(params.stop_token_ids, token)) return {token, FinishReason::kStop};
  const bool may_stop = seq.num_generated() >= params.min_tokens;
  if (progress.text && progress.text->push(token, may_stop)) return {token, FinishReason::kStop};
  if (seq.num_known() == seq.max_tokens) return {token, FinishReason::kLength};
  return {token, std::nullopt};
}

void Engine::finish(Sequence seq, RequestError error, double now, const EnginePorts& ports) {
  auto node = progress_.extract(seq.age);
  Progress& progress = node.mapped();
  progress.timing.finished = now;
  const auto num_prompt = static_cast<int>(seq.request.prompt.size());
  const bool failed = !error.code.empty();
  const RequestRecord record = {.head = seq.request.head,
                                .error_code = error.code,
                                .submitted = progress.timing.submitted,
                                .admitted = progress.timing.admitted,
                                .first_token = progress.timing.first_token,
                                .finished = now,
                                .token_times = std::move(progress.token_times),
                                .prompt_tokens = num_prompt,
                                .completion_tokens = failed ? 0 : seq.num_generated(),
                                .preemptions = seq.num_preemptions,
                                .recomputed_tokens = static_cast<int>(seq.num_recomputed)};
  Completion answer = {.head = std::move(seq.request.head),
                       .num_prompt_tokens = num_prompt,
                       .timing = progress.timing};
  if (failed) {
    answer.reason = FinishReason::kError;
    answer.error = std::move(error);
  } else {
    answer.tokens.assign(seq.tokens.begin() + num_prompt, seq.tokens.end());
    if (progress.text) answer.text = progress.text->finish();
    answer.reason = *seq.finished;
  }
  ports.done(std::move(answer), record);
}

}  // namespace pagedinfer
