// What the tracker makes of the tokens of a request.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/request_tracker.h"
#include "kv/paged_pool.h"
#include "tests/support/workload.h"

using namespace pagedinfer;

namespace {

constexpr TokenId kEnd = 7;  // the model's end of sequence

// Words by id; 7 is special.
class WordTokenizer final : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view, AddBos) const override { return {}; }
  std::optional<TokenId> find_token(std::string_view) const override { return {}; }
  std::string_view token_bytes(TokenId token) const override {
    constexpr std::string_view kWords[] = {"a",        " b",   "\xC3\xA9", ".",
                                           "\xE2\x82", "\xAC", "x.y",      ""};
    return kWords[token];
  }
  std::string_view special_text(TokenId token) const override {
    return token == kEnd ? "</s>" : "";
  }
  int vocab_size() const override { return 8; }
};

// What is drawn for a sample at a place of its completion.
using Draws = std::function<DrawnToken(int sample, int place)>;

DrawnToken drawn(TokenId token, float log_probability, std::vector<TokenCandidate> more = {}) {
  return {.token = token, .log_probability = log_probability, .candidates = std::move(more)};
}

// Runs requests to their end, with tokens that the test says.
struct SceneOptions {
  bool has_tokenizer = true;
  int num_traced = -1;
};

class Scene {
 public:
  explicit Scene(const SceneOptions& options = {})
      : tracker(spec, options.has_tokenizer ? &tokenizer : nullptr, scheduler, options.num_traced) {
    spec.eos_tokens = {kEnd};
  }

  // The answer to the line, or to one of this prompt.
  Completion answer(Request request, const Draws& draws) {
    return answer(line_of(std::move(request)), draws);
  }
  Completion answer(PreparedLine line, const Draws& draws) {
    std::vector<Completion> answers;
    const auto done = [&](Completion answer, const RequestStats& answer_stats) {
      answers.push_back(std::move(answer));
      stats = answer_stats;
    };
    tracker.submit({std::move(line)}, ++now, done);
    while (!scheduler.idle()) step(draws, done);
    REQUIRE(answers.size() == 1);
    return std::move(answers.front());
  }

  // Computes a step.
  void step(const Draws& draws, const RequestTracker::Done& done) {
    StepPlan plan = scheduler.plan([&](const Sequence& seq) { tracker.on_admit(seq); });
    for (const Sequence* seq : scheduler.sequences_of(plan)) tracker.on_step(*seq, ++now);
    score_prompts(plan);
    scheduler.advance(plan);
    std::vector<DrawnToken> tokens;
    for (const Draw& draw : plan.draws) {
      const Sequence& seq = *scheduler.find(draw);
      tokens.push_back(draws(seq.sample, draw.position - seq.num_prompt()));
    }
    auto committed = scheduler.commit(
        plan, tokens,
        [&](const Sequence& seq, const DrawnToken& token) {
          return tracker.on_token(seq, token, ++now);
        },
        [&](const Sequence& beam) { return tracker.roles_in_beam(beam); });
    for (Sequence& seq : committed.finished) tracker.finish(std::move(seq), {}, ++now, done);
  }

  // A choice that draws these tokens, each with the log probability -0.5 less its place.
  CompletionChoice choice(const Request& request, const std::vector<TokenId>& tokens) {
    Completion completion = answer(request, [&](int, int place) {
      return drawn(tokens.at(static_cast<size_t>(place)), -0.5f - static_cast<float>(place),
                   {{place, -0.25f}});
    });
    REQUIRE(completion.choices.size() == 1);
    return std::move(completion.choices.front());
  }

  // How the token of a prompt at a position is scored, the first time and the second.
  std::function<DrawnToken(int position, int time)> score;

  void score_prompts(const StepPlan& plan) {
    for (const Sequence* seq : scheduler.sequences_of(plan)) {
      if (!score || seq->num_generated() > 0) continue;
      for (int time = 0; time < 2; ++time) {
        for (int position = 1; position < seq->num_prompt(); ++position) {
          tracker.on_prompt_token(*seq, position, score(position, time));
        }
      }
    }
  }

  WordTokenizer tokenizer;
  ModelSpec spec;
  PagedPool pool{64, 4};
  Scheduler scheduler{pool, {.max_running = 64, .max_waiting = 64, .max_model_len = 128}};
  RequestTracker tracker;
  double now = 0;
  RequestStats stats;  // of the last answer
};

// The names of tokens with their offsets.
std::vector<std::pair<TokenId, int>> places(const CompletionChoice& choice) {
  REQUIRE(choice.log_probs);
  std::vector<std::pair<TokenId, int>> result;
  for (const TokenLogProbs& token : *choice.log_probs) {
    result.emplace_back(token.token, token.text_offset);
  }
  return result;
}
using Places = std::vector<std::pair<TokenId, int>>;

Request asking(int num_log_probs, int max_tokens = 16) {
  Request request = {.prompt = {0, 1, 2}};
  request.sampling.max_tokens = max_tokens;
  request.sampling.num_log_probs = num_log_probs;
  return request;
}

}  // namespace

TEST_CASE("the error of a line is that of its first sample, whichever ends last") {
  Scene scene;
  Request request = asking(-1, 4);
  request.num_samples = request.num_returned = 2;
  std::vector<Completion> answers;
  const auto done = [&](Completion answer, const RequestStats&) {
    answers.push_back(std::move(answer));
  };
  scene.tracker.submit({line_of(std::move(request))}, 1, done);
  StepPlan plan = scene.scheduler.plan();
  scene.scheduler.advance(plan);
  const std::vector<DrawnToken> tokens = {drawn(kNoToken, 0), drawn(1, 0)};
  auto committed =
      scene.scheduler.commit(plan, tokens, [&](const Sequence& seq, const DrawnToken& token) {
        return scene.tracker.on_token(seq, token, 2);
      });
  for (Sequence& seq : committed.finished) scene.tracker.finish(std::move(seq), {}, 3, done);
  plan = scene.scheduler.plan();
  for (Sequence& seq : scene.scheduler.abort(plan)) {
    scene.tracker.finish(std::move(seq), {"step_failed", "it broke"}, 4, done);
  }
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].error.code == "no_finite_logits");
}

TEST_CASE("log probabilities are those of the tokens drawn, where asked for") {
  Scene scene;
  const CompletionChoice choice = scene.choice(asking(1, 3), {2, 1, 0});
  CHECK(choice.text == "\xC3\xA9 ba");
  CHECK(places(choice) == Places{{2, 0}, {1, 1}, {0, 3}});
  const TokenLogProbs& second = choice.log_probs->at(1);
  CHECK(second.log_probability == -1.5f);
  CHECK(second.candidates == std::vector<TokenCandidate>{{1, -0.25f}});
  CHECK_FALSE(scene.choice(asking(-1, 3), {2, 1, 0}).log_probs);
}

TEST_CASE("the token that ends a completion has a log probability only if it is in the text") {
  Scene scene;
  Request request = asking(0);
  CHECK(places(scene.choice(request, {0, 1, kEnd})) == Places{{0, 0}, {1, 1}});
  CHECK(places(scene.choice(request, {kEnd})).empty());
  request.sampling.stop_token_ids = {3};
  CHECK(places(scene.choice(request, {0, 3})) == Places{{0, 0}});
  request.sampling.keep_stop = true;
  CHECK(places(scene.choice(request, {0, 3})) == Places{{0, 0}, {3, 1}});
  CHECK(scene.choice(request, {0, 3}).text == "a.");
}

TEST_CASE("tokens that a stop string cuts off have no log probabilities") {
  Scene scene;
  Request request = asking(0);
  request.sampling.stop = {"a.", "."};
  CHECK(places(scene.choice(request, {1, 0, 3})) == Places{{1, 0}});       // " b" and "a."
  CHECK(places(scene.choice(request, {1, 6})) == Places{{1, 0}, {6, 2}});  // "x" is left of "x.y"
  request.sampling.keep_stop = true;
  CHECK(places(scene.choice(request, {1, 0, 3})) == Places{{1, 0}, {0, 2}, {3, 3}});
}

TEST_CASE("without a tokenizer log probabilities have no places in a text") {
  Scene scene({.has_tokenizer = false});
  CHECK(places(scene.choice(asking(0), {2, 1, kEnd})) == Places{{2, 0}, {1, 0}});
}

TEST_CASE("of more samples than are returned the likeliest come first, ties by their number") {
  Scene scene;
  Request request = asking(-1, 4);
  request.num_samples = 5;
  request.num_returned = 4;
  const std::vector<std::vector<float>> draws = {
      {-1.0f, -1.0f}, {-3.0f, -3.0f}, {-1.0f, -1.0f}, {-0.25f, -0.5f, -0.75f}, {-4.0f}};
  const Completion completion = scene.answer(request, [&](int sample, int place) {
    const std::vector<float>& tokens = draws[static_cast<size_t>(sample)];
    const auto at = static_cast<size_t>(place);
    return drawn(at + 1 < tokens.size() ? sample : kEnd, tokens.at(at));
  });
  std::vector<TokenId> first;
  for (const CompletionChoice& choice : completion.choices) {
    first.push_back(choice.tokens.front());
    CHECK_FALSE(choice.log_probs);  // not asked for
  }
  CHECK(first == std::vector<TokenId>{3, 0, 2, 1});
  CHECK(completion.num_completion_tokens == 10);  // of all that were drawn
  CHECK(scene.stats.completion_tokens == 10);
}

TEST_CASE("the mean of a sample counts all its tokens, the one that ended it included") {
  Scene scene;
  Request request = asking(0, 4);
  request.num_samples = 3;
  request.num_returned = 2;
  const std::vector<std::vector<float>> draws = {
      {-1.0f, -1.0f}, {-0.5f, -0.5f, -4.0f}, {-1.5f, -0.25f}};
  const Completion completion = scene.answer(request, [&](int sample, int place) {
    const std::vector<float>& tokens = draws[static_cast<size_t>(sample)];
    const auto at = static_cast<size_t>(place);
    return drawn(at + 1 < tokens.size() ? sample : kEnd, tokens.at(at));
  });
  REQUIRE(completion.choices.size() == 2);
  CHECK(completion.choices[0].tokens == std::vector<TokenId>{2, kEnd});  // -0.875
  CHECK(completion.choices[1].tokens == std::vector<TokenId>{0, kEnd});  // -1, before -1.67
  CHECK(places(completion.choices[0]) == Places{{2, 0}});
}

TEST_CASE("a completion that is repeated is computed once and counts each time") {
  Scene scene;
  Request request = asking(0, 2);
  request.num_returned = 3;
  const Completion completion = scene.answer(request, [](int, int) { return drawn(0, -1.0f); });
  REQUIRE(completion.choices.size() == 3);
  for (const CompletionChoice& choice : completion.choices) CHECK(choice.text == "aa");
  CHECK(completion.num_completion_tokens == 6);
  CHECK(scene.stats.completion_tokens == 2);
}

TEST_CASE("an echoed prompt stands in front of each completion") {
  Scene scene;
  Request request = asking(-1, 2);
  request.echo = true;
  request.prompt_text = "\xC3\xA9 b";
  request.num_samples = request.num_returned = 2;
  const Completion completion =
      scene.answer(request, [](int sample, int) { return drawn(sample, -1.0f); });
  REQUIRE(completion.choices.size() == 2);
  CHECK(completion.choices[0].text == "\xC3\xA9 baa");
  CHECK(completion.choices[1].text == "\xC3\xA9 b b b");
  CHECK(completion.choices[1].tokens == std::vector<TokenId>{1, 1});
  CHECK(completion.prompt_log_probs.empty());
}

TEST_CASE("a request that asks for its prompt alone is answered at once") {
  Scene scene;
  Request request = asking(-1, 0);
  request.echo = true;
  request.prompt_text = "ab";
  request.num_returned = 2;
  const Completion completion = scene.answer(request, [](int, int) { return drawn(0, 0); });
  REQUIRE(completion.choices.size() == 2);
  CHECK(completion.choices[1].text == "ab");
  CHECK(completion.choices[1].tokens.empty());
  CHECK(completion.choices[1].reason == FinishReason::kLength);
  CHECK(completion.num_prompt_tokens == 3);
  CHECK(completion.num_completion_tokens == 0);
  CHECK(completion.timing.admitted > 0);
  CHECK(completion.timing.first_token > 0);
}

TEST_CASE("scored tokens of a prompt are shown with it, the first score of each") {
  Scene scene;
  Request request = asking(1, 1);
  request.prompt_text = "a b\xC3\xA9";
  request.prompt_offsets = {0, 1, 3};
  request.echo = true;
  request.num_prompt_log_probs = 2;
  scene.score = [](int position, int time) {
    return drawn(kNoToken, -1.0f * static_cast<float>(position) - 100.0f * static_cast<float>(time),
                 {{3, -0.25f}, {4, -0.5f}});
  };
  const Completion completion = scene.answer(request, [](int, int) { return drawn(2, -0.5f); });
  REQUIRE(completion.choices.size() == 1);
  const CompletionChoice& choice = completion.choices.front();
  CHECK(choice.text == "a b\xC3\xA9\xC3\xA9");
  CHECK(places(choice) == Places{{0, 0}, {1, 1}, {2, 3}, {2, 4}});
  const std::vector<TokenLogProbs>& shown = *choice.log_probs;
  CHECK_FALSE(shown[0].log_probability);
  CHECK(shown[1].log_probability == -1.0f);
  CHECK(shown[2].log_probability == -2.0f);
  CHECK(shown[3].log_probability == -0.5f);
  CHECK(shown[2].candidates == std::vector<TokenCandidate>{{3, -0.25f}});
  REQUIRE(completion.prompt_log_probs.size() == 1);
  const std::vector<TokenLogProbs>& prompt = completion.prompt_log_probs.front();
  REQUIRE(prompt.size() == 3);
  CHECK(prompt[1].log_probability == -1.0f);
  CHECK(prompt[2].candidates.size() == 2);
}

TEST_CASE("a prompt of which a token has no log probability is an error") {
  Scene scene;
  Request request = asking(-1, 1);
  request.num_prompt_log_probs = 0;
  scene.score = [](int, int) { return DrawnToken{}; };
  const Completion completion = scene.answer(request, [](int, int) { return drawn(2, -0.5f); });
  CHECK(completion.error.code == "no_finite_logits");
  CHECK(completion.choices.empty());
}

TEST_CASE("the prompts of a line are answered together, in their order") {
  Scene scene;
  Request request = asking(0, 3);
  request.num_samples = request.num_returned = 2;
  PreparedLine line = line_of(request, 5);
  for (const int num_prompt : {1, 4}) {
    request.prompt.assign(static_cast<size_t>(num_prompt), 0);
    line.prompts.push_back(request);
  }
  const Completion completion = scene.answer(
      line, [](int sample, int place) { return drawn(place > sample ? kEnd : sample, -1.0f); });
  CHECK(completion.head.index == 5);
  CHECK(completion.num_prompt_tokens == 3 + 1 + 4);
  REQUIRE(completion.choices.size() == 6);
  for (size_t i = 0; i < 6; ++i) CHECK(completion.choices[i].tokens.size() == 2 + i % 2);
  CHECK(completion.num_completion_tokens == 3 * (2 + 3));
  CHECK(scene.stats.token_times.size() == 6);
}

TEST_CASE("a line of 1,024 prompts of 64 samples goes behind the lines that wait after each") {
  constexpr int kBehind = 10;
  Scene scene;
  Request request = asking(-1, 2);
  request.num_samples = request.num_returned = kMaxSamples;
  PreparedLine line = {.head = {.index = kBehind}, .prompts = std::vector(1024, request)};
  std::vector<int64_t> answered;
  const auto done = [&](const Completion& answer, const RequestStats&) {
    answered.push_back(answer.head.index);
  };
  scene.tracker.submit({std::move(line)}, 0, done);
  for (int i = 0; i < kBehind; ++i) {
    scene.tracker.submit({line_of(asking(-1, 2), i)}, 0, done);
  }
  CHECK(scene.scheduler.num_waiting() == 1 + kBehind);
  int64_t num_drawn = 0, num_steps = 0;
  const auto draw = [&](int, int) { return ++num_drawn, drawn(0, -1.0f); };
  while (answered.size() < kBehind && ++num_steps < 1000) scene.step(draw, done);
  CHECK(answered.size() == kBehind);
  CHECK(std::ranges::is_sorted(answered));
  CHECK(num_drawn < 2 * 2 * kMaxSamples);  // two prompts' samples
  scene.scheduler.clear();
}

TEST_CASE("a line of several prompts has no more than its share of sequences, and goes on") {
  Scene scene;
  Request request = asking(-1, 2);
  request.num_samples = request.num_returned = 40;  // of 64 that may run
  const PreparedLine line = {.prompts = std::vector(3, request)};
  const Completion completion = scene.answer(line, [&](int, int) {
    CHECK(scene.scheduler.num_running() <= 40);
    return drawn(0, -1.0f);
  });
  CHECK(completion.choices.size() == 3 * 40);
}

TEST_CASE("prompts of a line share a step while they have room, and its window counts them all") {
  Scene scene;
  PreparedLine line = {.prompts = std::vector(100, asking(-1, 2))};
  const auto done = [](const Completion& answer, const RequestStats&) {
    CHECK(answer.choices.size() == 100);
  };
  scene.tracker.submit({std::move(line)}, 0, done);
  const auto draw = [](int, int) { return drawn(0, -1.0f); };
  int max_running = 0;
  while (!scene.scheduler.idle()) {
    scene.step(draw, done);
    max_running = std::max(max_running, scene.scheduler.num_running());
    CHECK(scene.scheduler.num_waiting() <= 1);
  }
  CHECK(max_running > 40);  // of 64 blocks, less the reserve

  Scheduler window(scene.pool, {.max_waiting = 8, .max_waiting_tokens = 1000});
  window.hold_back(999);
  CHECK(!window.window_full());
  window.hold_back(1);
  CHECK(window.window_full());
}

TEST_CASE("the trace has the draws of each choice, and of a beam the rows of its own tokens") {
  Scene scene({.num_traced = 1});
  const auto draw = [](TokenId token, std::vector<TokenCandidate> candidates, uint64_t hash) {
    return DrawnToken{token, candidates.front().log_probability, candidates, hash};
  };
  const Completion sampled = scene.answer(asking(-1, 2), [&](int, int place) {
    return draw(4, {{4, -1.0f}, {5, -2.0f}}, static_cast<uint64_t>(70 + place));
  });
  CHECK(sampled.trace.prompts == std::vector<std::vector<TokenId>>{{0, 1, 2}});
  CHECK(sampled.trace.draws == std::vector<std::vector<DrawnToken>>{
                                   {draw(4, {{4, -1.0f}}, 70), draw(4, {{4, -1.0f}}, 71)}});

  Request request = asking(-1, 2);
  request.sampling.beams.width = request.num_returned = 2;
  const Completion found = scene.answer(request, [&](int beam, int place) {
    if (place == 0) return draw(1, {{1, -1.0f}, {2, -2.0f}}, 7);
    if (beam == 0) return draw(6, {{6, -0.5f}, {5, -9.0f}}, 8);
    return draw(5, {{5, -0.5f}, {6, -9.0f}}, 9);
  });
  REQUIRE(found.choices.size() == 2);
  CHECK(found.choices[0].tokens == std::vector<TokenId>{1, 6});
  CHECK(found.choices[1].tokens == std::vector<TokenId>{2, 5});
  CHECK(found.trace.draws == std::vector<std::vector<DrawnToken>>{
                                 {{1, -1.0f, {{1, -1.0f}}, 7}, {6, -0.5f, {{6, -0.5f}}, 8}},
                                 {{2, -2.0f, {{1, -1.0f}}, 7}, {5, -0.5f, {{5, -0.5f}}, 9}}});
}

TEST_CASE("a line of which one prompt can never run is refused whole") {
  Scene scene;
  Request request = asking(-1, 3);
  Request other = request;
  other.prompt.assign(100, 0);
  other.sampling.beams.width = 60;
  const PreparedLine line = {.prompts = {request, other}};
  const Completion completion = scene.answer(line, [](int, int) { return drawn(0, 0); });
  CHECK(completion.error.code == "exceeds_cache");
  CHECK(completion.error.message.starts_with("prompt[1]: "));
  CHECK(completion.num_prompt_tokens == 103);
}
