// Whether two answers agree, and where they part; and that an answer is read as it was kept.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "commands/verify/answer_comparison.h"
#include "commands/verify/answer_file.h"
#include "tests/support/workload.h"

namespace pagedinfer {
namespace {

// A draw of the first of these candidates, the logits of which are given.
DrawnToken draw(TokenId token, std::vector<TokenCandidate> candidates, uint64_t hash = 0) {
  DrawnToken drawn = {.token = token, .candidates = std::move(candidates), .logits_hash = hash};
  for (const TokenCandidate& candidate : drawn.candidates) {
    if (candidate.token == token) drawn.log_probability = candidate.log_probability;
  }
  return drawn;
}

using Draws = std::vector<DrawnToken>;  // of a choice

Completion answer_of(std::vector<Draws> choices,
                     std::vector<std::vector<TokenId>> prompts = {{1, 2, 3}}) {
  Completion answer = {.trace = {.prompts = std::move(prompts), .draws = std::move(choices)}};
  for (const Draws& draws : answer.trace.draws) {
    CompletionChoice& choice = answer.choices.emplace_back();
    for (const DrawnToken& drawn : draws) choice.tokens.push_back(drawn.token);
  }
  return answer;
}

// Draws 5, then 6 or 7, whose logits differ by `lead`, then 8.
Completion near_tie(TokenId second, float lead) {
  const TokenId other = second == 6 ? 7 : 6;
  return answer_of(
      {Draws{draw(5, {{5, -0.1f}, {9, -3}}), draw(second, {{second, -0.5f}, {other, -0.5f - lead}}),
             draw(8, {{8, -0.25f}, {9, -0.75f}})}});
}

Completion error(ErrorCode code) { return {.error = {code, "why"}}; }

AnswerComparison compare(const Completion& a, const Completion& b,
                         std::optional<double> tolerance = {}) {
  return compare_answers(a, b, tolerance, false);
}

DrawnToken random_draw(WorkloadRandom& random) {
  DrawnToken drawn = {.token = random.pick(0, 99)};
  if (!random.one_in(4)) drawn.log_probability = -0.125f * static_cast<float>(random.pick(0, 99));
  for (int i = random.pick(0, 3); i > 0; --i) {
    drawn.candidates.push_back({random.pick(0, 99), -static_cast<float>(i)});
  }
  drawn.logits_hash = static_cast<uint64_t>(random.pick(0, 1 << 30)) << 33;
  return drawn;
}

std::vector<TokenLogProbs> random_log_probs(WorkloadRandom& random) {
  std::vector<TokenLogProbs> list;
  for (int i = random.pick(0, 4); i > 0; --i) {
    const DrawnToken drawn = random_draw(random);
    list.push_back({drawn.token, drawn.log_probability, drawn.candidates});
  }
  return list;
}

Completion random_answer(WorkloadRandom& random, int64_t turn) {
  Completion answer = {.head = {.index = turn + 3, .turn = turn, .line = 2 * turn + 1}};
  if (random.one_in(2)) answer.head.id_json = R"("an id")";
  if (random.one_in(4)) {
    answer.error.code = "prompt_too_long";
    return answer;
  }
  answer.trace.prompts = {random.tokens(random.pick(1, 9), 100), random.tokens(1, 100)};
  for (int i = random.pick(0, 2); i > 0; --i) {
    answer.prompt_log_probs.push_back(random_log_probs(random));
  }
  for (int i = random.pick(1, 4); i > 0; --i) {
    CompletionChoice& choice = answer.choices.emplace_back();
    choice.tokens = random.tokens(random.pick(0, 5), 100);
    Draws& draws = answer.trace.draws.emplace_back();
    for (size_t t = 0; t < choice.tokens.size(); ++t) draws.push_back(random_draw(random));
    if (random.one_in(2)) choice.log_probs = random_log_probs(random);
  }
  return answer;
}

void check_same(const std::vector<TokenLogProbs>& a, const std::vector<TokenLogProbs>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].token == b[i].token);
    REQUIRE(a[i].log_probability == b[i].log_probability);
    REQUIRE(a[i].candidates == b[i].candidates);
  }
}

// A scored prompt of four tokens; its third token has this log probability and these candidates.
Completion scored(float log_probability, std::vector<TokenCandidate> candidates = {}) {
  Completion answer = answer_of({Draws{}}, {{1, 2, 3, 4}});
  answer.prompt_log_probs = {
      {{1, {}}, {2, -0.5f}, {3, log_probability, std::move(candidates)}, {4, -2.0f}}};
  return answer;
}

}  // namespace

TEST_CASE("answers agree if all tokens are equal, whatever their logits are") {
  const AnswerComparison equal = compare(near_tie(6, 0.01f), near_tie(6, 2.0f));
  CHECK(equal.is_equal());
  CHECK(equal.agrees());
  CHECK(equal.tokens == 3);
  CHECK(equal.tokens_behind == 0);
}

TEST_CASE("the first token that differs is told with its place, choices and margins") {
  const AnswerComparison found = compare(near_tie(6, 0.25f), near_tie(7, 0.5f));
  CHECK(!found.is_equal());
  CHECK(!found.agrees());
  CHECK(found.tokens == 2);
  REQUIRE(found.differences.size() == 1);
  const TokenDifference& difference = found.differences[0];
  CHECK(difference.place == TokenPlace{.choice = 0, .prompt = 0, .token = 1, .position = 4});
  CHECK(difference.a.token == 6);
  CHECK(difference.a.margin == 0.25f);
  CHECK(difference.a.lead == 0.25f);
  CHECK(difference.b.token == 7);
  CHECK(difference.b.margin == 0.5f);
}

TEST_CASE("a difference is tolerated only if both tokens are near in both runs") {
  for (const bool swaps : {false, true}) {
    const auto agree = [&](float a, float b, std::optional<double> tolerance) {
      const Completion first = near_tie(6, a), second = near_tie(7, b);
      return compare(swaps ? second : first, swaps ? first : second, tolerance).agrees();
    };
    CHECK(agree(0.25f, 0.5f, 0.5));
    CHECK(!agree(0.25f, 0.75f, 0.5));
    CHECK(!agree(0.25f, 0.5f, {}));
    CHECK(agree(-0.25f, 0.0f, 0.25));  // a draw at a temperature may be the less likely one
    CHECK(!agree(-0.75f, 0.0f, 0.5));
  }
  const AnswerComparison tolerated = compare(near_tie(6, 0.25f), near_tie(7, 0.25f), 0.25);
  CHECK(!tolerated.is_equal());
  CHECK(tolerated.tokens == 2);
  CHECK(tolerated.tokens_behind == 1);
}

TEST_CASE("a choice that is not among the other run's likeliest tokens is not tolerated") {
  Completion other = near_tie(7, 0.1f);
  other.trace.draws[0][1].candidates.pop_back();
  const AnswerComparison found = compare(near_tie(6, 0.1f), other, 1e6);
  CHECK(!found.agrees());
  CHECK(!found.differences[0].b.lead);
  CHECK(!found.differences[0].b.margin);
}

TEST_CASE("a completion that goes on where the other ends differs there, at any tolerance") {
  Completion shorter = near_tie(6, 0.0f);
  shorter.choices[0].tokens.pop_back();
  shorter.trace.draws[0].pop_back();
  for (const bool swaps : {false, true}) {
    const Completion longer = near_tie(6, 0.0f);
    const AnswerComparison found =
        swaps ? compare(longer, shorter, 1e6) : compare(shorter, longer, 1e6);
    CHECK(!found.agrees());
    REQUIRE(found.differences.size() == 1);
    CHECK(found.differences[0].place.token == 2);
    CHECK((swaps ? found.differences[0].b : found.differences[0].a).token == std::nullopt);
    CHECK((swaps ? found.differences[0].a : found.differences[0].b).token == 8);
  }
}

TEST_CASE("each choice of each prompt is compared") {
  const std::vector<std::vector<TokenId>> prompts = {{1}, {1, 2, 3, 4}};
  const auto choice = [](TokenId token) { return Draws{draw(9, {}), draw(token, {})}; };
  const Completion a = answer_of({choice(1), choice(2), choice(3), choice(4)}, prompts);
  const Completion b = answer_of({choice(1), choice(7), choice(3), choice(7)}, prompts);
  const AnswerComparison found = compare(a, b);
  REQUIRE(found.differences.size() == 2);
  CHECK(found.differences[0].place ==
        TokenPlace{.choice = 1, .prompt = 0, .token = 1, .position = 2});
  CHECK(found.differences[1].place ==
        TokenPlace{.choice = 3, .prompt = 1, .token = 1, .position = 5});
  CHECK(found.tokens == 8);
}

TEST_CASE("scored prompts differ in the last bit of a log probability, at its place") {
  const AnswerComparison same = compare(scored(-1.5f), scored(-1.5f));
  CHECK(same.is_equal());
  CHECK(same.log_probs == 3);
  CHECK(same.log_probs_differ == 0);
  const float next = std::nextafter(-1.5f, 0.0f);
  const AnswerComparison found = compare(scored(-1.5f), scored(next));
  CHECK(!found.is_equal());
  CHECK(!found.agrees());
  CHECK(found.log_probs_differ == 1);
  REQUIRE(found.log_prob_differences.size() == 1);
  const LogProbDifference& difference = found.log_prob_differences[0];
  CHECK(difference.is_of_prompt);
  CHECK(difference.number == 0);
  CHECK(difference.entry == 2);
  CHECK(difference.token == 3);
  CHECK(difference.a == -1.5f);
  CHECK(difference.b == next);
  CHECK(difference.num_entries == 1);
  CHECK(difference.largest == next + 1.5f);
}

TEST_CASE("log probabilities agree if those of the token and of all candidates are near") {
  const auto agree = [](const Completion& a, const Completion& b, double tolerance) {
    const bool agrees = compare(a, b, tolerance).agrees();
    CHECK(compare(b, a, tolerance).agrees() == agrees);
    return agrees;
  };
  CHECK(agree(scored(-1.5f), scored(-1.25f), 0.25));
  CHECK(!agree(scored(-1.5f), scored(-1.25f), 0.125));
  const Completion a = scored(-1.5f, {{7, -0.5f}, {8, -1.0f}});
  CHECK(agree(a, scored(-1.5f, {{8, -0.5f}, {7, -1.0f}}), 0.5));  // in another order
  CHECK(!agree(a, scored(-1.5f, {{8, -0.5f}, {7, -1.0f}}), 0.25));
  CHECK(agree(a, scored(-1.5f, {{7, -0.5f}, {9, -0.75f}}), 0.25));  // another one at the end
  CHECK(!agree(a, scored(-1.5f, {{7, -0.5f}, {9, -0.75f}}), 0.125));
  CHECK(!agree(a, scored(-1.5f), 1e6));
  const AnswerComparison other = compare(a, scored(-1.5f, {{7, -0.5f}, {9, -0.75f}}));
  REQUIRE(other.log_prob_differences.size() == 1);
  CHECK(other.log_prob_differences[0].token == 8);
  CHECK(other.log_prob_differences[0].a == -1.0f);
  CHECK(!other.log_prob_differences[0].b);
  CHECK(!other.log_prob_differences[0].largest);
}

TEST_CASE("log probabilities of completions are compared up to the first token that differs") {
  const auto answer = [](TokenId second, float first_log_probability) {
    Completion tie = near_tie(second, 0.25f);
    const float last = second == 7 ? -7.0f : -0.25f;
    tie.choices[0].log_probs = {{5, first_log_probability}, {second, -0.5f}, {8, last}};
    return tie;
  };
  const AnswerComparison same_tokens = compare(answer(6, -0.125f), answer(6, -0.25f), 0.0625);
  CHECK(same_tokens.log_probs == 3);
  CHECK(same_tokens.log_probs_differ == 1);
  CHECK(!same_tokens.agrees());
  const AnswerComparison tolerated = compare(answer(6, -0.125f), answer(7, -0.25f), 0.25);
  CHECK(tolerated.log_probs == 1);
  CHECK(tolerated.log_probs_differ == 1);
  CHECK(tolerated.agrees());
  CHECK(!compare(answer(6, -0.125f), answer(7, -0.5f), 0.25).agrees());
}

TEST_CASE("answers to other tokens of the prompt differ at any tolerance") {
  const Completion a = answer_of({Draws{draw(5, {})}}, {{1, 2, 3}});
  const Completion b = answer_of({Draws{draw(5, {})}}, {{1, 2, 4}});
  CHECK(!compare(a, b, 1e6).agrees());
  CHECK(compare(a, b, 1e6).tokens == 0);
}

TEST_CASE("errors agree if their codes are equal, and with nothing else") {
  CHECK(compare(error("step_failed"), error("step_failed")).is_equal());
  CHECK(!compare(error("step_failed"), error("no_finite_logits"), 1e6).agrees());
  CHECK(!compare(error("step_failed"), near_tie(6, 0), 1e6).agrees());
  CHECK(!compare(near_tie(6, 0), error("step_failed"), 1e6).agrees());
}

TEST_CASE("rows of logits are compared up to the first token that differs") {
  const auto answer = [](TokenId second, uint64_t first_hash, uint64_t second_hash) {
    return answer_of({Draws{draw(5, {}, first_hash), draw(second, {}, second_hash),
                            draw(8, {}, uint64_t{77} + static_cast<uint64_t>(second))}});
  };
  const auto compare_rows = [](const Completion& a, const Completion& b) {
    return compare_answers(a, b, {}, true);
  };
  const AnswerComparison same = compare_rows(answer(6, 1, 2), answer(6, 1, 2));
  CHECK(same.rows == 3);
  CHECK(same.rows_differ == 0);
  CHECK(!same.first_row);
  const AnswerComparison other_bits = compare_rows(answer(6, 1, 2), answer(6, 1, 3));
  CHECK(other_bits.is_equal());
  CHECK(other_bits.rows_differ == 1);
  REQUIRE(other_bits.first_row);
  CHECK(other_bits.first_row->position == 4);
  const AnswerComparison other_token = compare_rows(answer(6, 1, 2), answer(7, 4, 3));
  CHECK(other_token.rows == 2);
  CHECK(other_token.rows_differ == 2);
  REQUIRE(other_token.first_row);
  CHECK(other_token.first_row->token == 0);
  CHECK(compare(answer(6, 1, 2), answer(6, 1, 3)).rows == 0);
}

TEST_CASE("answers are read by their turn as they were kept, in whichever order they came") {
  WorkloadRandom random(5);
  std::vector<Completion> answers;
  for (int turn = 0; turn < 200; ++turn) answers.push_back(random_answer(random, turn));
  AnswerFile file;
  std::vector<size_t> order(answers.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i * 77 % order.size();
  for (const size_t i : order) file.add(answers[i]);
  file.finish();
  REQUIRE(file.size() == 200);
  for (const Completion& kept : answers) {
    const Completion read = file.read(kept.head.turn);
    REQUIRE(read.head.index == kept.head.index);
    REQUIRE(read.head.line == kept.head.line);
    REQUIRE(read.head.id_json == kept.head.id_json);
    REQUIRE(read.error.code == kept.error.code);
    REQUIRE(read.trace.prompts == kept.trace.prompts);
    REQUIRE(read.trace.draws == kept.trace.draws);
    REQUIRE(read.prompt_log_probs.size() == kept.prompt_log_probs.size());
    for (size_t i = 0; i < read.prompt_log_probs.size(); ++i) {
      check_same(read.prompt_log_probs[i], kept.prompt_log_probs[i]);
    }
    REQUIRE(read.choices.size() == kept.choices.size());
    for (size_t i = 0; i < read.choices.size(); ++i) {
      REQUIRE(read.choices[i].tokens == kept.choices[i].tokens);
      REQUIRE(read.choices[i].log_probs.has_value() == kept.choices[i].log_probs.has_value());
      if (read.choices[i].log_probs) {
        check_same(*read.choices[i].log_probs, *kept.choices[i].log_probs);
      }
    }
  }
}

}  // namespace pagedinfer
