#include "engine/request_tracker.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "engine/token_bans.h"

namespace pagedinfer {
namespace {

bool contains(const std::vector<TokenId>& tokens, TokenId token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

// What an answer and its statistics have in common. `completion` has it already.
RequestStats stats_of(const Completion& completion) {
  return {.head = completion.head,
          .error_code = completion.error.code,
          .admitted = completion.timing.admitted,
          .first_token = completion.timing.first_token,
          .finished = completion.timing.finished,
          .prompt_tokens = completion.num_prompt_tokens};
}

// Makes the choices of the samples.
void choose(const Request& request, Completion& completion) {
  std::vector<CompletionChoice>& choices = completion.choices;
  const auto num_returned = static_cast<size_t>(request.num_returned);
  if (choices.size() < num_returned) {
    CHECK(choices.size() == 1);
    choices.resize(num_returned, CompletionChoice(choices.front()));
  }
  for (const CompletionChoice& choice : choices) {
    completion.num_completion_tokens += std::ssize(choice.tokens);
  }
}

}  // namespace

void RequestTracker::submit(IntakeItem item, double now, const Done& done) {
  Completion refused;
  if (Request* request = std::get_if<Request>(&item)) {
    const auto num_prompt = static_cast<int>(request->prompt.size());
    std::optional<RequestError> refusal =
        scheduler_.refusal(num_prompt, request->sampling.max_tokens);
    if (!refusal) {
      auto tracked = std::make_unique<Tracked>();
      tracked->request = std::move(*request);
      tracked->num_left = tracked->request.num_samples;
      tracked->samples.resize(static_cast<size_t>(tracked->num_left));
      const int64_t age = scheduler_.submit(tracked->request);
      tracked_.emplace(age, std::move(tracked));
      return;
    }
    refused = {.head = std::move(request->head),
               .num_prompt_tokens = num_prompt,
               .error = std::move(*refusal)};
  } else {
    refused = std::move(std::get<Completion>(item));
  }
  refused.timing = {.finished = now};
  const RequestStats stats = stats_of(refused);
  done(std::move(refused), stats);
}

void RequestTracker::on_step(const Sequence& seq, double now) {
  double& admitted = tracked(seq).timing.admitted;
  if (admitted == 0) admitted = now;
}

std::optional<FinishReason> RequestTracker::on_token(const Sequence& seq, const DrawnToken& drawn,
                                                     double now) {
  const TokenId token = drawn.token;
  if (token == kNoToken) return FinishReason::kError;
  const SamplingParams& params = seq.request->sampling;
  Tracked& request = tracked(seq);
  Sample& sample = request.samples[seq.sample];
  if (request.timing.first_token == 0) request.timing.first_token = now;
  if (sample.token_times.empty() && tokenizer_ != nullptr) {
    sample.text.emplace(
        *tokenizer_, params.stop,
        TextOptions{.show_special = !params.skip_special, .keep_stop = params.keep_stop});
  }
  sample.token_times.push_back(now);
  const bool is_end = !params.ignore_eos && contains(spec_.eos_tokens, token);
  const bool stops = is_end || contains(params.stop_token_ids, token);
  if (stops && params.keep_stop && sample.text) sample.text->push(token, false);
  if (is_end) {
    const bool by_force = ends_by_force(spec_, seq, seq.num_known());
    return by_force ? FinishReason::kLength : FinishReason::kStop;
  }
  if (stops) return FinishReason::kStop;
  const bool may_stop = seq.num_generated() >= params.min_tokens;
  if (sample.text && sample.text->push(token, may_stop)) return FinishReason::kStop;
  if (seq.num_known() == seq.max_tokens) return FinishReason::kLength;
  return std::nullopt;
}

void RequestTracker::finish(Sequence seq, const std::string& failure, double now,
                            const Done& done) {
  Tracked& request = tracked(seq);
  request.num_preemptions += seq.num_preemptions;
  request.num_recomputed += seq.num_recomputed;
  if (!failure.empty()) {
    request.error = {"step_failed", failure};
  } else if (seq.finished == FinishReason::kError) {
    request.error = {"no_finite_logits",
                     "the model's logits are not numbers, or all minus infinity"};
  } else {
    Sample& sample = request.samples[seq.sample];
    sample.choice.tokens.assign(seq.generated().begin(), seq.generated().end());
    if (sample.text) sample.choice.text = sample.text->finish();
    sample.choice.reason = *seq.finished;
  }
  request.num_left -= seq.num_samples();
  if (request.num_left > 0) return;
  answer(request, now, done);
  tracked_.erase(seq.age - seq.sample);
}

void RequestTracker::answer(Tracked& request, double now, const Done& done) const {
  request.timing.finished = now;
  Completion completion = {.head = std::move(request.request.head),
                           .num_prompt_tokens = static_cast<int>(request.request.prompt.size()),
                           .error = std::move(request.error),
                           .timing = request.timing};
  RequestStats stats = stats_of(completion);
  stats.preemptions = request.num_preemptions;
  stats.recomputed_tokens = static_cast<int>(request.num_recomputed);
  for (Sample& sample : request.samples) {
    stats.token_times.push_back(std::move(sample.token_times));
    if (completion.failed()) continue;
    stats.completion_tokens += static_cast<int>(sample.choice.tokens.size());
    completion.choices.push_back(std::move(sample.choice));
  }
  if (!completion.failed()) choose(request.request, completion);
  done(std::move(completion), stats);
}

}  // namespace pagedinfer
