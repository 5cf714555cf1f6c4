#include "engine/request_tracker.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/check.h"
#include "engine/token_bans.h"

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

int num_prompt_tokens(const PreparedLine& line) {
  size_t num_tokens = 0;
  for (const Request& request : line.prompts) num_tokens += request.prompt.size();
  return static_cast<int>(num_tokens);
}

// Whether a token is drawn or scored.
bool has_work(const Request& request) {
  const bool scores = request.num_prompt_candidates() >= 0 && request.prompt.size() > 1;
  return request.sampling.max_tokens > 0 || scores;
}

}  // namespace

void RequestTracker::submit(EngineLine line, double now, const Done& done) {
  if (PreparedLine* const prepared = std::get_if<PreparedLine>(&line.item)) {
    Result<> fits = scheduler_.fits(prepared->prompts);
    if (fits) return begin(make_line(std::move(*prepared), std::move(line.form)), now, done);
    line.item = Completion{.head = std::move(prepared->head),
                           .num_prompt_tokens = num_prompt_tokens(*prepared),
                           .error = std::move(fits.error())};
  }
  auto& refused = std::get<Completion>(line.item);
  refused.timing = {.finished = now};
  const RequestStats stats = stats_of(refused);
  done(std::move(refused), stats);
}

void RequestTracker::begin(std::unique_ptr<Line> line, double now, const Done& done) {
  std::vector<const Request*> requests;
  for (Prompt& prompt : line->prompts) {
    const Request& request = prompt.computed.request;
    if (!has_work(request)) continue;
    requests.push_back(&request);
    prompts_.emplace(&request, &prompt);
  }
  if (requests.empty()) return answer(*line, now, done);
  line->turn.emplace(std::move(requests), scheduler_);
  Line* const key = line.get();
  lines_.emplace(key, std::move(line));
}

void RequestTracker::on_admit(const Sequence& seq) { prompt_of(seq).line->turn->on_admit(seq); }

std::unique_ptr<RequestTracker::Line> RequestTracker::make_line(
    PreparedLine prepared, std::shared_ptr<const CompiledForm> form) const {
  auto line = std::make_unique<Line>();
  line->head = std::move(prepared.head);
  line->form = std::move(form);
  line->prompts.reserve(prepared.prompts.size());
  for (Request& request : prepared.prompts) {
    Prompt& prompt = line->prompts.emplace_back();
    prompt.line = line.get();
    prompt.computed = builder_.begin(std::move(request));
    prompt.samples.resize(prompt.computed.samples.size());
    if (line->form) prompt.forms.emplace(spec_, prompt.computed.request, *line->form);
  }
  return line;
}

void RequestTracker::on_step(const Sequence& seq, double now) {
  double& admitted = prompt_of(seq).line->timing.admitted;
  if (admitted == 0) admitted = now;
}

FormProgress& RequestTracker::form_of(const Sequence& seq, int sample) {
  std::optional<SampleForms>& forms = prompt_of(seq).forms;
  CHECK(forms);
  return forms->of(seq, sample);
}

BeamSearch::RoleOf RequestTracker::roles_in_beam(const Sequence& beam) {
  std::optional<SampleForms>& forms = prompt_of(beam).forms;
  return forms ? forms->roles_in_beam(beam) : pagedinfer::roles_in_beam(spec_, beam);
}

void RequestTracker::on_prompt_token(const Sequence& seq, int position, const DrawnToken& scored) {
  Prompt& prompt = prompt_of(seq);
  if (builder_.add_score(scored, position, prompt.computed)) return;
  fail(seq.age, no_finite_logits(), *prompt.line);
}

// The error of a line does not depend on which of its samples ends first.
void RequestTracker::fail(Age age, RequestError error, Line& line) {
  if (!line.error.code.empty() && line.failed_age <= age) return;
  line.error = std::move(error);
  line.failed_age = age;
}

std::optional<FinishReason> RequestTracker::on_token(const Sequence& seq, const DrawnToken& drawn,
                                                     double now) {
  const TokenId token = drawn.token;
  const SamplingParams& params = seq.request->sampling;
  Prompt& prompt = prompt_of(seq);
  if (token == kNoToken && !(seq.is_beam() && prompt.forms && prompt.forms->lacks_tokens(seq))) {
    return FinishReason::kError;
  }
  double& first_token = prompt.line->timing.first_token;
  if (first_token == 0) first_token = now;
  if (seq.is_beam()) {
    if (seq.sample == 0) prompt.samples.front().token_times.push_back(now);
    const std::span<const TokenId> before = seq.generated().first(seq.generated().size() - 1);
    builder_.add_beam_draw(drawn, before, prompt.computed);
    return std::nullopt;
  }
  const auto index = static_cast<size_t>(seq.sample);
  Sample& sample = prompt.samples[index];
  if (sample.token_times.empty() && tokenizer_ != nullptr) {
    sample.text.emplace(
        *tokenizer_, params.stop,
        TextOptions{.show_special = !params.skip_special, .keep_stop = params.keep_stop});
  }
  sample.token_times.push_back(now);
  const bool may_end = !params.ignore_eos || prompt.forms;
  const bool is_end = may_end && contains(spec_.eos_tokens, token);
  const bool stops = is_end || contains(params.stop_token_ids, token);
  builder_.add_token(drawn, !stops || params.keep_stop, params, prompt.computed.samples[index]);
  if (stops && params.keep_stop && sample.text) sample.text->push(token, false);
  const bool by_force = ends_by_force(spec_, seq, seq.num_known());
  if (is_end) return by_force ? FinishReason::kLength : FinishReason::kStop;
  if (stops) return FinishReason::kStop;
  std::optional<FinishReason> end_of_form;
  if (!by_force && prompt.forms) end_of_form = prompt.forms->accept(seq.sample, token);
  const bool may_stop = seq.num_generated() >= params.min_tokens;
  if (sample.text && sample.text->push(token, may_stop)) return FinishReason::kStop;
  if (end_of_form) return end_of_form;
  if (seq.num_known() == seq.max_tokens) return FinishReason::kLength;
  return std::nullopt;
}

// The reason why a sample has no next token, or why no beam of a search can go on: the form allows
// no token that may be drawn, or the logits are not finite.
RequestError RequestTracker::error_of_draw(const Sequence& seq, Prompt& prompt) const {
  if (!prompt.forms) return no_finite_logits();
  std::vector<TokenId> tokens(seq.generated().begin(), seq.generated().end());
  if (!tokens.empty() && tokens.back() == kNoToken) tokens.pop_back();
  const std::string message = prompt.forms->why_no_token(seq, tokens);
  if (message.empty()) return no_finite_logits();
  const std::optional<TextStream>& text = prompt.samples[static_cast<size_t>(seq.sample)].text;
  return {
      "form_impossible", message,
      text ? text->finish() : builder_.choice_of({.tokens = tokens}, seq.request->sampling).text};
}

void RequestTracker::finish(Sequence seq, const Result<>& step, double now, const Done& done) {
  Prompt& prompt = prompt_of(seq);
  Line& line = *prompt.line;
  line.num_preemptions += seq.num_preemptions;
  line.num_recomputed += seq.num_recomputed;
  line.num_found += seq.num_found;
  if (!step) {
    fail(seq.age, step.error(), line);
  } else if (seq.finished == FinishReason::kError) {
    fail(seq.age, error_of_draw(seq, prompt), line);
  } else if (seq.is_beam()) {
    builder_.keep_beams(seq.found_beams, prompt.computed);
  } else {
    const auto index = static_cast<size_t>(seq.sample);
    ComputedSample& sample = prompt.computed.samples[index];
    sample.choice.tokens.assign(seq.generated().begin(), seq.generated().end());
    if (prompt.samples[index].text) AnswerBuilder::set_text(*prompt.samples[index].text, sample);
    sample.choice.reason = *seq.finished;
  }
  if (prompt.forms) prompt.forms->end(seq.sample);
  if (!line.turn->on_end(seq)) return;
  answer(line, now, done);
  for (const Prompt& of_line : line.prompts) prompts_.erase(&of_line.computed.request);
  lines_.erase(&line);
}

std::vector<int64_t> RequestTracker::drawn_so_far() const {
  std::vector<int64_t> drawn;
  for (const auto& [key, line] : lines_) {
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
  Completion completion = {.head = std::move(line.head),
                           .num_cached_tokens = line.num_found,
                           .error = std::move(line.error),
                           .timing = line.timing};
  for (const Prompt& prompt : line.prompts) {
    completion.num_prompt_tokens += static_cast<int>(prompt.computed.request.prompt.size());
  }
  RequestStats stats = stats_of(completion);
  stats.preemptions = line.num_preemptions;
  stats.recomputed_tokens = static_cast<int>(line.num_recomputed);
  stats.cached_tokens = line.num_found;
  for (Prompt& prompt : line.prompts) {
    for (Sample& sample : prompt.samples) {
      if (!sample.token_times.empty()) stats.token_times.push_back(std::move(sample.token_times));
    }
    if (completion.failed()) continue;
    for (const ComputedSample& sample : prompt.computed.samples) {
      stats.completion_tokens += static_cast<int>(sample.choice.tokens.size());
    }
    builder_.add_to(completion, std::move(prompt.computed));
  }
  done(std::move(completion), stats);
}

}  // namespace pagedinfer
