// The engine's lines: how one comes in, what a token means to it, and how it is answered.
#include <algorithm>
#include <utility>

#include "engine/engine.h"

namespace pagedinfer {
namespace {

constexpr TokenId kNoToken = -1;

bool contains(const std::vector<TokenId>& tokens, TokenId token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

}  // namespace

void Engine::submit(IntakeItem item, const EnginePorts& ports) {
  Completion answer;
  if (Request* request = std::get_if<Request>(&item)) {
    const auto num_prompt = static_cast<int>(request->prompt.size());
    std::optional<RequestError> refusal =
        scheduler_.refusal(num_prompt, request->sampling.max_tokens);
    if (!refusal) {
      const int64_t age = scheduler_.submit(std::move(*request));
      progress_.try_emplace(age);
      return;
    }
    answer = {.head = std::move(request->head),
              .num_prompt_tokens = num_prompt,
              .reason = FinishReason::kError,
              .error = std::move(*refusal)};
  } else {
    answer = std::move(std::get<Completion>(item));
  }
  const double now = parts_.clock();
  answer.timing = {.finished = now};
  const RequestStats stats = {.head = answer.head,
                              .error_code = answer.error.code,
                              .finished = now,
                              .prompt_tokens = answer.num_prompt_tokens};
  ports.done(std::move(answer), stats);
}

// Takes note of a new token and says whether the sequence ends with it.
Scheduler::Sampled Engine::on_token(const Sequence& seq, TokenId token, double now) {
  const SamplingParams& params = seq.request.sampling;
  if (token == kNoToken) return {token, FinishReason::kError};
  Progress& progress = progress_.at(seq.age);
  if (progress.token_times.empty()) {
    progress.timing.first_token = now;
    if (parts_.tokenizer != nullptr) {
      progress.text.emplace(
          *parts_.tokenizer, params.stop,
          TextOptions{.show_special = !params.skip_special, .keep_stop = params.keep_stop});
    }
  }
  progress.token_times.push_back(now);
  const bool is_end = !params.ignore_eos && contains(parts_.spec.eos_tokens, token);
  const bool stops = is_end || contains(params.stop_token_ids, token);
  if (stops && params.keep_stop && progress.text) progress.text->push(token, false);
  if (is_end) {
    const bool by_force = ends_by_force(seq, seq.num_known());
    return {token, by_force ? FinishReason::kLength : FinishReason::kStop};
  }
  if (stops) return {token, FinishReason::kStop};
  const bool may_stop = seq.num_generated() >= params.min_tokens;
  if (progress.text && progress.text->push(token, may_stop)) return {token, FinishReason::kStop};
  if (seq.num_known() == seq.max_tokens) return {token, FinishReason::kLength};
  return {token, std::nullopt};
}

void Engine::end(Step& step, std::vector<Sequence> finished, const std::string& failure, double now,
                 const EnginePorts& ports) {
  for (Sequence& seq : finished) {
    RequestError error;
    if (!failure.empty()) {
      error = {"step_failed", failure};
    } else if (seq.finished == FinishReason::kError) {
      error = {"no_finite_logits", "the model's logits are not numbers, or all minus infinity"};
    }
    finish(std::move(seq), std::move(error), now, ports);
  }
  step.stats.end = parts_.clock();
  step.stats.times.commit = step.stats.end - now;
  ports.stepped(step.stats);
}

void Engine::finish(Sequence seq, RequestError error, double now, const EnginePorts& ports) {
  auto node = progress_.extract(seq.age);
  Progress& progress = node.mapped();
  progress.timing.finished = now;
  const auto num_prompt = static_cast<int>(seq.request.prompt.size());
  const bool failed = !error.code.empty();
  const RequestStats stats = {.head = seq.request.head,
                              .error_code = error.code,
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
  ports.done(std::move(answer), stats);
}

}  // namespace pagedinfer
