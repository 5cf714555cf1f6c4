// A run that is rehearsed without a model, beside the same run with one.
#include <doctest/doctest.h>

#include <random>

#include "commands/plan/input_survey.h"
#include "commands/plan/rehearsal.h"
#include "core/error.h"
#include "tests/support/model_runs.h"
#include "tests/support/tiny_model.h"

namespace pagedinfer {
namespace {

double no_time() { return 0; }

// Prompts of which many begin alike; some score their prompt and some may have several samples.
std::vector<Request> mixed_requests(std::mt19937& random, TokenId vocab, bool with_samples) {
  std::vector<Request> requests;
  for (int i = 0; i < 60; ++i) {
    Request request =
        make_request(i, 1 + static_cast<int>(random() % 50), 1 + random() % 20, vocab);
    if (i > 0 && random() % 2 == 0) {
      const std::vector<TokenId>& other = requests[random() % requests.size()].prompt;
      const size_t same = random() % (std::min(other.size(), request.prompt.size()) + 1);
      std::copy_n(other.begin(), same, request.prompt.begin());
    }
    request.sampling.ignore_eos = true;
    if (with_samples && random() % 8 == 0) {
      request.num_samples = request.num_returned = 2 + static_cast<int>(random() % 2);
      request.sampling.temperature = 1;
    } else if (random() % 8 == 0) {
      request.num_prompt_log_probs = 0;
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

// Lines of one of these requests each, or of several.
std::vector<EngineLine> lines_of(std::mt19937& random, const std::vector<Request>& requests,
                                 bool with_several) {
  std::vector<PreparedLine> lines;
  for (const Request& request : requests) {
    if (lines.empty() || !with_several || random() % 5 == 0) {
      lines.push_back({.head = {.index = std::ssize(lines)}});
    }
    lines.back().prompts.push_back(request);
  }
  std::vector<EngineLine> result;
  for (PreparedLine& line : lines) result.push_back({std::move(line)});
  return result;
}

struct Steps {
  int64_t count = 0, found = 0, cached = 0, preempted = 0, running = 0, leased = 0;
};

Steps steps_of(LoadedModel& model, const RunPlan& plan, const std::vector<EngineLine>& lines) {
  Run run(model, plan);
  Engine engine(run.parts(no_time), plan.limits);
  Steps steps;
  run_requests(
      engine, lines,
      [&](const Completion& completion) {
        CHECK(completion.error.code == "");
        steps.cached += completion.num_cached_tokens;
      },
      [&](const StepStats& stats) {
        ++steps.count;
        steps.found += stats.tokens_found;
        steps.preempted += stats.preempted;
        steps.running = std::max<int64_t>(steps.running, stats.running);
        steps.leased = std::max(steps.leased, stats.pool.positions_leased);
      });
  return steps;
}

}  // namespace

TEST_CASE("a rehearsal takes the steps that the run takes") {
  const TinyModel files({.max_positions = 256, .eos_token = 60, .dtype = DType::kBF16});
  std::mt19937 random(180);
  std::vector<Config> configs = configs_of_runs(files.dir(), Config::Device::kCpu);
  configs.push_back(configs[1]);
  configs.back().num_blocks = 400;  // no sequence is preempted
  configs.push_back(configs[1]);
  configs.back().admission_reserve = 0;
  LoadedModel model = load_model(configs, no_time);
  Steps sum;
  for (int round = 0; round < 8; ++round) {
    const bool with_samples = round % 2 == 1;
    const std::vector<EngineLine> lines =
        lines_of(random, mixed_requests(random, 60, with_samples), round >= 4);
    for (const RunPlan& plan : model.plan.runs) {
      InputSurvey survey(plan.limits.max_model_len, RequestSample(plan.memory.block_size));
      const std::unique_ptr<KvPool> pool = make_pool(plan);
      const Scheduler scheduler(*pool, plan.limits);
      for (const EngineLine& line : lines) survey.add(line.item, scheduler);
      const Rehearsal rehearsal = rehearse(survey.sample().requests(), {.plan = plan});
      const Steps expected = steps_of(model, plan, lines);
      CHECK(rehearsal.num_requests == 60);
      sum.found += expected.found;
      sum.cached += expected.cached;
      sum.preempted += expected.preempted;
      if (with_samples) {  // of which two may draw the same tokens and share them
        CHECK(rehearsal.num_steps == doctest::Approx(expected.count).epsilon(0.03));
        continue;
      }
      CHECK(rehearsal.num_steps == expected.count);
      CHECK(rehearsal.num_cached == expected.cached);
      CHECK(rehearsal.num_preemptions == expected.preempted);
      CHECK(rehearsal.running.max() == expected.running);
      CHECK(rehearsal.max_positions == expected.leased);
      // With room for all of them what is found is what the survey has counted.
      if (plan.memory.num_blocks == 400) CHECK(rehearsal.num_cached >= survey.num_found());
    }
  }
  CHECK(sum.cached > 1000);
  CHECK(sum.found > sum.cached);  // sequences that were preempted find their tokens again
  CHECK(sum.preempted > 5);
}

TEST_CASE("completions are rehearsed no longer than expected, and no more of them than asked for") {
  const TinyModel files({.max_positions = 256});
  Config config = {.model = files.dir(), .device = Config::Device::kCpu, .num_blocks = 50};
  const LoadedModel model = load_model({config}, no_time);
  const RunPlan& plan = model.plan.runs.front();
  const std::vector<SampledRequest> requests(100, {.num_prompt = 10, .max_new = 30});
  const auto rehearsed = [&](std::optional<int> max_new, int64_t max_tokens) {
    return rehearse(requests, {.plan = plan, .max_new = max_new, .max_tokens = max_tokens});
  };
  CHECK(rehearsed({}, 1 << 20).new_tokens == 3000);
  CHECK(rehearsed(7, 1 << 20).new_tokens == 700);
  CHECK(rehearsed(50, 1 << 20).new_tokens == 3000);
  const Rehearsal part = rehearsed({}, 900);
  CHECK(part.num_requests == 30);
  CHECK(part.new_tokens == 900);
}

TEST_CASE("with completions of the default length all that a sample may hold is rehearsed") {
  const RunPlan plan;
  const RehearsedRun run = {.plan = plan};
  CHECK(run.max_tokens >= RequestSample::Bounds().requests * SamplingParams().max_tokens);
}

TEST_CASE("a rehearsal can be ended before each step") {
  const TinyModel files({.max_positions = 256});
  Config config = {.model = files.dir(), .device = Config::Device::kCpu, .num_blocks = 50};
  const LoadedModel model = load_model({config}, no_time);
  const std::vector<SampledRequest> requests(1, {.num_prompt = 10, .max_new = 30});
  int num_steps = 0;
  const RehearsedRun run = {.plan = model.plan.runs.front(), .before_step = [&] {
                              if (++num_steps == 20) throw Error("interrupted");
                            }};
  CHECK_THROWS_AS(rehearse(requests, run), Error);
  CHECK(num_steps == 20);
}

TEST_CASE("numbers of running sequences count by their steps") {
  RunningCounts counts;
  for (const int running : {4, 8, 4, 4}) counts.add(running);
  CHECK(counts.mean() == 5);
  CHECK(counts.max() == 8);
  CHECK(counts.percentile(50) == 4);
  CHECK(counts.percentile(75) == 4);
  CHECK(counts.percentile(76) == 8);
  CHECK(RunningCounts().mean() == 0);
  CHECK(RunningCounts().max() == 0);
}

}  // namespace pagedinfer
