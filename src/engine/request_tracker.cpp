#include "engine/request_tracker.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "core/token_mask.h"
#include "core/utf8.h"
#include "engine/token_bans.h"
#include "text/chat/tool_calls.h"

namespace pagedinfer {
namespace {

bool contains(std::span<const TokenId> tokens, TokenId token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

// The statistics that are copied from the completion.
RequestStats stats_of(const Completion& completion) {
  return {.head = completion.head,
          .error_code = completion.error.code,
          .admitted = completion.timing.admitted,
          .first_token = completion.timing.first_token,
          .finished = completion.timing.finished,
          .prompt_tokens = completion.num_prompt_tokens};
}

RequestError no_finite_logits() {
  return {"no_finite_logits", "the model's logits are not numbers, or all minus infinity"};
}

int num_prompt_tokens(const Request& first) {
  size_t num_tokens = first.prompt.size();
  for (const Request& request : first.more) num_tokens += request.prompt.size();
  return static_cast<int>(num_tokens);
}

// Whether a token is drawn or scored.
bool has_work(const Request& request) {
  const bool scores = request.num_prompt_candidates() >= 0 && request.prompt.size() > 1;
  return request.sampling.max_tokens > 0 || scores;
}

// Sets the offsets of tokens in the text. Tokens without an offset are not in the text and are
// dropped.
void place(const std::vector<int>& offsets, std::vector<TokenLogProbs>& tokens) {
  CHECK(offsets.size() <= tokens.size());
  tokens.resize(offsets.size());
  for (size_t i = 0; i < offsets.size(); ++i) tokens[i].text_offset = offsets[i];
}

// The first `count` candidates, fewer if there are fewer.
std::vector<TokenCandidate> first_of(std::vector<TokenCandidate> candidates, int count) {
  if (std::ssize(candidates) > count) candidates.resize(static_cast<size_t>(count));
  return candidates;
}

// The tokens with their first `count` candidates.
std::vector<TokenLogProbs> with_candidates(std::vector<TokenLogProbs> tokens, int count) {
  for (TokenLogProbs& token : tokens) {
    token.candidates = first_of(std::move(token.candidates), count);
  }
  return tokens;
}

// Puts the prompt in front of a completion.
void repeat_prompt(const Request& request, const std::vector<TokenLogProbs>& prompt,
                   CompletionChoice& choice) {
  choice.text.insert(0, request.prompt_text);
  if (!choice.log_probs) return;
  const int num_before = num_characters(request.prompt_text);
  std::vector<TokenLogProbs> all = with_candidates(prompt, request.sampling.num_log_probs);
  for (TokenLogProbs& token : *choice.log_probs) {
    token.text_offset += num_before;
    all.push_back(std::move(token));
  }
  choice.log_probs = std::move(all);
}

}  // namespace

void RequestTracker::submit(EngineLine line, double now, const Done& done) {
  if (Request* const request = std::get_if<Request>(&line.item)) {
    Result<> fits = scheduler_.fits(*request);
    if (fits) return begin(make_line(std::move(*request), std::move(line.form)), now, done);
    line.item = Completion{.head = std::move(request->head),
                           .num_prompt_tokens = num_prompt_tokens(*request),
                           .error = std::move(fits.error())};
  }
  auto& refused = std::get<Completion>(line.item);
  refused.timing = {.finished = now};
  const RequestStats stats = stats_of(refused);
  done(std::move(refused), stats);
}

void RequestTracker::begin(std::unique_ptr<Line> line, double now, const Done& done) {
  for (Prompt& prompt : line->prompts) {
    if (!has_work(prompt.request)) continue;
    const int64_t age = scheduler_.submit(prompt.request);
    line->ages.push_back(age);
    line->num_left += prompt.request.num_samples;
    prompts_.emplace(age, &prompt);
  }
  if (line->ages.empty()) return answer(*line, now, done);
  const int64_t age = line->ages.front();
  lines_.emplace(age, std::move(line));
}

std::unique_ptr<RequestTracker::Line> RequestTracker::make_line(
    Request first, std::shared_ptr<const CompiledForm> form) const {
  auto line = std::make_unique<Line>();
  line->form = std::move(form);
  std::vector<Request> more = std::move(first.more);
  const auto add = [&](Request& request) {
    Prompt& prompt = line->prompts.emplace_back();
    prompt.line = line.get();
    prompt.request = std::move(request);
    prompt.samples.resize(static_cast<size_t>(prompt.request.num_samples));
    if (prompt.request.num_prompt_candidates() < 0) return;
    const std::vector<TokenId>& tokens = prompt.request.prompt;
    for (const TokenId token : tokens) prompt.log_probs.push_back({.token = token});
    if (num_traced_ >= 0) prompt.hashes.resize(tokens.size());
    const std::vector<int>& offsets = prompt.request.prompt_offsets;
    if (!offsets.empty()) place(offsets, prompt.log_probs);
  };
  line->prompts.reserve(1 + more.size());
  add(first);
  for (Request& request : more) add(request);
  return line;
}

void RequestTracker::on_step(const Sequence& seq, double now) {
  double& admitted = prompt_of(seq).line->timing.admitted;
  if (admitted == 0) admitted = now;
}

FormProgress& RequestTracker::form_of(const Sequence& seq, int sample) {
  Prompt& prompt = prompt_of(seq);
  if (seq.is_beam()) {
    if (!prompt.beam_forms) prompt.beam_forms.emplace(begin_form(prompt));
    return prompt.beam_forms->of(seq.generated());
  }
  std::optional<FormProgress>& form = prompt.samples.at(static_cast<size_t>(sample)).form;
  return form ? *form : form.emplace(begin_form(prompt));
}

FormProgress RequestTracker::begin_form(const Prompt& prompt) const {
  CHECK(prompt.line->form != nullptr);
  const Request& request = prompt.request;
  return {*prompt.line->form, end_tokens(spec_, request.sampling), request.form_behind};
}

BeamSearch::RoleOf RequestTracker::roles_in_beam(const Sequence& beam) {
  BeamSearch::RoleOf roles = pagedinfer::roles_in_beam(spec_, beam);
  if (!beam.is_guided() || ends_by_force(spec_, beam, beam.num_known() + 1)) return roles;
  return [roles = std::move(roles), &forms = *prompt_of(beam).beam_forms](const Beam& of,
                                                                          TokenId token) {
    const TokenRole role = roles(of, token);
    return role == TokenRole::kGoesOn ? forms.role_of(of.tokens, token) : role;
  };
}

void RequestTracker::on_prompt_token(const Sequence& seq, int position, const DrawnToken& scored) {
  Prompt& prompt = prompt_of(seq);
  TokenLogProbs& token = prompt.log_probs.at(static_cast<size_t>(position));
  if (token.log_probability) return;
  token.log_probability = scored.log_probability;
  token.candidates = scored.candidates;
  if (!prompt.hashes.empty()) prompt.hashes[static_cast<size_t>(position)] = scored.logits_hash;
  if (!token.log_probability) fail(seq.first_age(), no_finite_logits(), *prompt.line);
}

// The error of a line does not depend on which of its samples ends first.
void RequestTracker::fail(int64_t age, RequestError error, Line& line) {
  if (!line.error.code.empty() && line.failed_age <= age) return;
  line.error = std::move(error);
  line.failed_age = age;
}

std::optional<FinishReason> RequestTracker::on_token(const Sequence& seq, const DrawnToken& drawn,
                                                     double now) {
  const TokenId token = drawn.token;
  const SamplingParams& params = seq.request->sampling;
  Prompt& prompt = prompt_of(seq);
  if (token == kNoToken && !lacks_tokens(seq)) return FinishReason::kError;
  double& first_token = prompt.line->timing.first_token;
  if (first_token == 0) first_token = now;
  if (seq.is_beam()) {
    if (seq.sample == 0) prompt.samples.front().token_times.push_back(now);
    const std::span<const TokenId> before = seq.generated().first(seq.generated().size() - 1);
    if (num_traced_ >= 0) prompt.beam_draws[{before.begin(), before.end()}] = drawn;
    return std::nullopt;
  }
  Sample& sample = prompt.samples[seq.sample];
  if (sample.token_times.empty() && tokenizer_ != nullptr) {
    sample.text.emplace(
        *tokenizer_, params.stop,
        TextOptions{.show_special = !params.skip_special, .keep_stop = params.keep_stop});
  }
  sample.token_times.push_back(now);
  sample.sum_log_probs += drawn.log_probability.value_or(0);
  if (num_traced_ >= 0) {
    DrawnToken& kept = sample.draws.emplace_back(drawn);
    kept.candidates = first_of(std::move(kept.candidates), num_traced_);
  }
  const bool may_end = !params.ignore_eos || sample.form;
  const bool is_end = may_end && contains(spec_.eos_tokens, token);
  const bool stops = is_end || contains(params.stop_token_ids, token);
  if (params.num_log_probs >= 0 && (!stops || params.keep_stop)) {
    sample.log_probs.push_back({.token = token,
                                .log_probability = drawn.log_probability,
                                .candidates = first_of(drawn.candidates, params.num_log_probs)});
  }
  if (stops && params.keep_stop && sample.text) sample.text->push(token, false);
  const bool by_force = ends_by_force(spec_, seq, seq.num_known());
  if (is_end) return by_force ? FinishReason::kLength : FinishReason::kStop;
  if (stops) return FinishReason::kStop;
  std::optional<FinishReason> end_of_form;
  if (!by_force) end_of_form = follow_form(token, sample);
  const bool may_stop = seq.num_generated() >= params.min_tokens;
  if (sample.text && sample.text->push(token, may_stop)) return FinishReason::kStop;
  if (end_of_form) return end_of_form;
  if (seq.num_known() == seq.max_tokens) return FinishReason::kLength;
  return std::nullopt;
}

// An answer ends without an end token if its form is complete and nothing may follow.
std::optional<FinishReason> RequestTracker::follow_form(TokenId token, Sample& sample) {
  if (!sample.form) return std::nullopt;
  if (!sample.form->accept(token)) return FinishReason::kError;
  if (!sample.form->is_complete() || sample.form->may_go_on()) return std::nullopt;
  return sample.form->failure().empty() ? FinishReason::kStop : FinishReason::kError;
}

// Whether the form allows no next token for a beam. Such a beam is dropped, and the search goes on
// with the others.
bool RequestTracker::lacks_tokens(const Sequence& seq) {
  if (!seq.is_beam() || !seq.is_guided()) return false;
  const auto before = seq.generated().first(seq.generated().size() - 1);
  FormProgress& form = prompt_of(seq).beam_forms->of(before);
  return !may_draw(form, seq.request->sampling, static_cast<int>(before.size()));
}

// Whether a token may go on in the form, if its logit is finite.
bool RequestTracker::may_draw(FormProgress& form, const SamplingParams& params,
                              int num_generated) const {
  form.make_mask();
  const std::span<const uint32_t> mask = form.mask();
  const std::vector<TokenId> banned =
      banned_tokens(spec_, params, num_generated, form.is_complete());
  const auto can_be_drawn = [&](TokenId token) {
    return is_allowed(mask, token) && !contains(banned, token) &&
           (params.allowed_token_ids.empty() || contains(params.allowed_token_ids, token));
  };
  for (TokenId token = 0; token < spec_.vocab; ++token) {
    if (form.failure().empty() && can_be_drawn(token)) return true;
  }
  return false;
}

// The reason why a sample has no next token, or why no beam of a search can go on: the form allows
// no token that may be drawn, or the logits are not finite.
RequestError RequestTracker::error_of_draw(const Sequence& seq, Prompt& prompt) const {
  const SamplingParams& params = seq.request->sampling;
  std::vector<TokenId> tokens(seq.generated().begin(), seq.generated().end());
  if (!tokens.empty() && tokens.back() == kNoToken) tokens.pop_back();
  Sample& sample = prompt.samples[seq.sample];
  FormProgress& form = prompt.beam_forms ? prompt.beam_forms->of(tokens) : sample.form.value();
  if (may_draw(form, params, static_cast<int>(tokens.size()))) return no_finite_logits();
  const std::string& failure = form.failure();
  return {
      "form_impossible",
      failure.empty() ? "no token that may be drawn goes on in the form of the answer" : failure,
      sample.text ? sample.text->finish() : choice_of({.tokens = tokens}, params).text};
}

void RequestTracker::finish(Sequence seq, const Result<>& step, double now, const Done& done) {
  Prompt& prompt = prompt_of(seq);
  Line& line = *prompt.line;
  line.num_preemptions += seq.num_preemptions;
  line.num_recomputed += seq.num_recomputed;
  line.num_found += seq.num_found;
  if (!step) {
    fail(seq.age, step.error(), line);
  } else if (seq.finished == FinishReason::kError && seq.is_guided()) {
    fail(seq.age, error_of_draw(seq, prompt), line);
  } else if (seq.finished == FinishReason::kError) {
    fail(seq.age, no_finite_logits(), line);
  } else if (seq.is_beam()) {
    keep_beams(seq, prompt);
  } else {
    Sample& sample = prompt.samples[seq.sample];
    sample.choice.tokens.assign(seq.generated().begin(), seq.generated().end());
    if (sample.text) {
      sample.choice.text = sample.text->finish();
      if (!sample.log_probs.empty()) place(sample.text->offsets(), sample.log_probs);
    }
    sample.choice.reason = *seq.finished;
  }
  if (seq.is_guided()) {
    prompt.samples[seq.sample].form.reset();
    prompt.beam_forms.reset();
  }
  line.num_left -= seq.num_samples();
  if (line.num_left > 0) return;
  answer(line, now, done);
  for (const int64_t age : line.ages) prompts_.erase(age);
  lines_.erase(line.ages.front());
}

// The best beams become the samples. They share the search's times.
void RequestTracker::keep_beams(const Sequence& seq, Prompt& prompt) const {
  const auto num_kept = std::min(seq.found_beams.size(), size_t(prompt.request.num_returned));
  prompt.samples.resize(num_kept);
  for (size_t i = 0; i < num_kept; ++i) {
    prompt.samples[i].choice = choice_of(seq.found_beams[i], prompt.request.sampling);
    if (num_traced_ >= 0) prompt.samples[i].draws = draws_of(seq.found_beams[i], prompt);
  }
}

CompletionChoice RequestTracker::choice_of(const FinishedBeam& beam,
                                           const SamplingParams& params) const {
  CompletionChoice choice = {.tokens = beam.tokens, .reason = beam.reason, .score = beam.score};
  if (tokenizer_ == nullptr) return choice;
  TextStream text(*tokenizer_, {}, {.show_special = !params.skip_special});
  const std::vector<TokenId> ends = end_tokens(spec_, params);
  for (size_t i = 0; i < beam.tokens.size(); ++i) {
    const bool stops = i + 1 == beam.tokens.size() && contains(ends, beam.tokens[i]);
    if (!stops || params.keep_stop) text.push(beam.tokens[i]);
  }
  choice.text = text.finish();
  return choice;
}

// The draws of the rows in which the beam's tokens were candidates, as if it had drawn them.
std::vector<DrawnToken> RequestTracker::draws_of(const FinishedBeam& beam,
                                                 const Prompt& prompt) const {
  std::vector<DrawnToken> draws;
  for (size_t i = 0; i < beam.tokens.size(); ++i) {
    const std::span<const TokenId> before = std::span(beam.tokens).first(i);
    DrawnToken& draw = draws.emplace_back(prompt.beam_draws.at({before.begin(), before.end()}));
    draw.token = beam.tokens[i];
    const auto drawn = std::ranges::find(draw.candidates, draw.token, &TokenCandidate::token);
    CHECK(drawn != draw.candidates.end());
    draw.log_probability = drawn->log_probability;
    draw.candidates = first_of(std::move(draw.candidates), num_traced_);
  }
  return draws;
}

std::vector<int64_t> RequestTracker::drawn_so_far() const {
  std::vector<int64_t> drawn;
  for (const auto& [age, line] : lines_) {
    if (line->timing.admitted == 0) continue;
    int64_t& sum = drawn.emplace_back(0);
    for (const Prompt& prompt : line->prompts) {
      for (const Sample& sample : prompt.samples) sum += std::ssize(sample.token_times);
    }
  }
  return drawn;
}

void RequestTracker::answer(Line& line, double now, const Done& done) const {
  // If nothing was drawn, the missing times are set to now.
  line.timing.finished = now;
  for (double* const time : {&line.timing.admitted, &line.timing.first_token}) {
    if (*time == 0 && line.error.code.empty()) *time = now;
  }
  Completion completion = {.head = std::move(line.prompts.front().request.head),
                           .num_cached_tokens = line.num_found,
                           .error = std::move(line.error),
                           .timing = line.timing};
  for (const Prompt& prompt : line.prompts) {
    completion.num_prompt_tokens += static_cast<int>(prompt.request.prompt.size());
  }
  RequestStats stats = stats_of(completion);
  stats.preemptions = line.num_preemptions;
  stats.recomputed_tokens = static_cast<int>(line.num_recomputed);
  stats.cached_tokens = line.num_found;
  for (Prompt& prompt : line.prompts) {
    for (Sample& sample : prompt.samples) {
      if (!sample.token_times.empty()) stats.token_times.push_back(std::move(sample.token_times));
      if (completion.failed()) continue;
      stats.completion_tokens += static_cast<int>(sample.choice.tokens.size());
    }
    if (!completion.failed()) add_results(prompt, completion);
  }
  done(std::move(completion), stats);
}

void RequestTracker::speak_calls(const Request& request, CompletionChoice& choice) const {
  std::optional<SpokenCalls> spoken = find_calls(request.tools, *tokenizer_, choice.tokens);
  if (!spoken) return;
  choice.tool_calls = std::move(spoken->calls);
  choice.content = std::move(spoken->content);
}

void RequestTracker::add_results(Prompt& prompt, Completion& completion) const {
  const Request& request = prompt.request;
  const SamplingParams& params = request.sampling;
  // Greedy completions are equal, so one is computed and repeated.
  const bool repeats = prompt.samples.size() == 1 && params.beams.width == 1;
  const int num_times = repeats ? std::max(request.num_returned, params.best_of.value_or(1)) : 1;
  for (Sample& sample : prompt.samples) {
    if (params.num_log_probs >= 0) sample.choice.log_probs = std::move(sample.log_probs);
    if (tokenizer_ != nullptr) speak_calls(request, sample.choice);
    if (request.echo) repeat_prompt(request, prompt.log_probs, sample.choice);
    completion.num_completion_tokens += num_times * std::ssize(sample.choice.tokens);
  }
  if (num_traced_ >= 0) {
    completion.trace.prompts.push_back(request.prompt);
    completion.trace.prompt_hashes.push_back(std::move(prompt.hashes));
  }
  for (const size_t sample : order_of_choices(prompt)) {
    CompletionChoice& drawn = prompt.samples[sample].choice;
    CompletionChoice choice = repeats ? drawn : std::move(drawn);
    // An id is a function of the request, so that every run writes the same one.
    uint64_t hash = hash_word(request.random_key, completion.choices.size());
    for (ToolCall& call : choice.tool_calls) {
      hash = hash_word(hash, 1);
      call.id = fmt::format("call_{:016x}", hash);
    }
    completion.choices.push_back(std::move(choice));
    if (num_traced_ >= 0) completion.trace.draws.push_back(prompt.samples[sample].draws);
  }
  if (request.num_prompt_log_probs < 0) return;
  completion.prompt_log_probs.push_back(
      with_candidates(std::move(prompt.log_probs), request.num_prompt_log_probs));
}

// The returned samples, in their order. If more were drawn, the samples with the highest mean log
// probability of a token are returned, best first. Of equal samples the earlier is better.
std::vector<size_t> RequestTracker::order_of_choices(const Prompt& prompt) {
  const auto num_returned = static_cast<size_t>(prompt.request.num_returned);
  std::vector<size_t> order(prompt.samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (prompt.request.sampling.beams.width > 1) return order;
  if (order.size() < num_returned) {
    CHECK(order.size() == 1);
    order.resize(num_returned, 0);
  } else if (order.size() > num_returned) {
    const auto mean = [&](size_t i) {
      const Sample& sample = prompt.samples[i];
      return sample.sum_log_probs / static_cast<double>(sample.choice.tokens.size());
    };
    std::ranges::stable_sort(order, std::greater<>(), mean);
    order.resize(num_returned);
  }
  return order;
}

}  // namespace pagedinfer
