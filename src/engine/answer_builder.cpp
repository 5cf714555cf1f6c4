#include "engine/answer_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "core/utf8.h"
#include "engine/token_bans.h"
#include "text/chat/tool_calls.h"

namespace pagedinfer {
namespace {

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

// The returned samples, in their order. If more were drawn, the samples with the highest mean log
// probability of a token are returned, best first. Of equal samples the earlier is better.
std::vector<size_t> order_of_choices(const ComputedPrompt& prompt) {
  const auto num_returned = static_cast<size_t>(prompt.request.num_returned);
  std::vector<size_t> order(prompt.samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (prompt.request.sampling.beams.width > 1) return order;
  if (order.size() < num_returned) {
    CHECK(order.size() == 1);
    order.resize(num_returned, 0);
  } else if (order.size() > num_returned) {
    const auto mean = [&](size_t i) {
      const ComputedSample& sample = prompt.samples[i];
      return sample.sum_log_probs / static_cast<double>(sample.choice.tokens.size());
    };
    std::ranges::stable_sort(order, std::greater<>(), mean);
    order.resize(num_returned);
  }
  return order;
}

}  // namespace

ComputedPrompt AnswerBuilder::begin(Request request) const {
  ComputedPrompt prompt = {.request = std::move(request)};
  prompt.samples.resize(static_cast<size_t>(prompt.request.num_samples));
  if (prompt.request.num_prompt_candidates() < 0) return prompt;
  const std::vector<TokenId>& tokens = prompt.request.prompt;
  for (const TokenId token : tokens) prompt.log_probs.push_back({.token = token});
  if (num_traced_ >= 0) prompt.hashes.resize(tokens.size());
  const std::vector<int>& offsets = prompt.request.prompt_offsets;
  if (!offsets.empty()) place(offsets, prompt.log_probs);
  return prompt;
}

bool AnswerBuilder::add_score(const DrawnToken& scored, int position,
                              ComputedPrompt& prompt) const {
  TokenLogProbs& token = prompt.log_probs.at(static_cast<size_t>(position));
  if (token.log_probability) return true;
  token.log_probability = scored.log_probability;
  token.candidates = scored.candidates;
  if (!prompt.hashes.empty()) prompt.hashes[static_cast<size_t>(position)] = scored.logits_hash;
  return token.log_probability.has_value();
}

void AnswerBuilder::add_token(const DrawnToken& drawn, bool is_shown, const SamplingParams& params,
                              ComputedSample& sample) const {
  sample.sum_log_probs += drawn.log_probability.value_or(0);
  if (num_traced_ >= 0) {
    DrawnToken& kept = sample.draws.emplace_back(drawn);
    kept.candidates = first_of(std::move(kept.candidates), num_traced_);
  }
  if (params.num_log_probs < 0 || !is_shown) return;
  sample.log_probs.push_back({.token = drawn.token,
                              .log_probability = drawn.log_probability,
                              .candidates = first_of(drawn.candidates, params.num_log_probs)});
}

void AnswerBuilder::add_beam_draw(const DrawnToken& drawn, std::span<const TokenId> before,
                                  ComputedPrompt& prompt) const {
  if (num_traced_ >= 0) prompt.beam_draws[{before.begin(), before.end()}] = drawn;
}

void AnswerBuilder::set_text(const TextStream& text, ComputedSample& sample) {
  sample.choice.text = text.finish();
  if (!sample.log_probs.empty()) place(text.offsets(), sample.log_probs);
}

void AnswerBuilder::keep_beams(std::span<const FinishedBeam> beams, ComputedPrompt& prompt) const {
  const auto num_kept = std::min(beams.size(), size_t(prompt.request.num_returned));
  prompt.samples.resize(num_kept);
  for (size_t i = 0; i < num_kept; ++i) {
    prompt.samples[i].choice = choice_of(beams[i], prompt.request.sampling);
    if (num_traced_ >= 0) prompt.samples[i].draws = draws_of(beams[i], prompt);
  }
}

CompletionChoice AnswerBuilder::choice_of(const FinishedBeam& beam,
                                          const SamplingParams& params) const {
  CompletionChoice choice = {.tokens = beam.tokens, .reason = beam.reason, .score = beam.score};
  if (tokenizer_ == nullptr) return choice;
  TextStream text(*tokenizer_, {}, {.show_special = !params.skip_special});
  const std::vector<TokenId> ends = end_tokens(spec_, params);
  for (size_t i = 0; i < beam.tokens.size(); ++i) {
    const bool is_last = i + 1 == beam.tokens.size();
    const bool stops = is_last && std::ranges::find(ends, beam.tokens[i]) != ends.end();
    if (!stops || params.keep_stop) text.push(beam.tokens[i]);
  }
  choice.text = text.finish();
  return choice;
}

// The draws of the rows in which the beam's tokens were candidates, as if it had drawn them.
std::vector<DrawnToken> AnswerBuilder::draws_of(const FinishedBeam& beam,
                                                const ComputedPrompt& prompt) const {
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

// Moves the function calls in an answer's text to its tool_calls.
void AnswerBuilder::find_calls_in(CompletionChoice& choice, const Request& request) const {
  if (tokenizer_ == nullptr) return;
  std::optional<SpokenCalls> spoken = find_calls(request.tools, *tokenizer_, choice.tokens);
  if (!spoken) return;
  choice.tool_calls = std::move(spoken->calls);
  choice.content = std::move(spoken->content);
}

void AnswerBuilder::add_to(Completion& completion, ComputedPrompt prompt) const {
  const Request& request = prompt.request;
  const SamplingParams& params = request.sampling;
  // Greedy completions are equal, so one is computed and repeated.
  const bool repeats = prompt.samples.size() == 1 && params.beams.width == 1;
  const int num_times = repeats ? std::max(request.num_returned, params.best_of.value_or(1)) : 1;
  for (ComputedSample& sample : prompt.samples) {
    if (params.num_log_probs >= 0) sample.choice.log_probs = std::move(sample.log_probs);
    find_calls_in(sample.choice, request);
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

}  // namespace pagedinfer
