// The engine from line to answer, on a tiny model.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/error.h"
#include "kv/contiguous_pool.h"
#include "kv/paged_pool.h"
#include "stats/report.h"
#include "tests/support/engine_run.h"
#include "tests/support/grammar_support.h"

using namespace pagedinfer;

namespace {

struct Bench {
  explicit Bench(const TinyModelOptions& shape, int num_threads = 1)
      : files(shape),
        model(open_model(files.dir())),
        rig(model,
            {.isa = available_isas().back(), .num_threads = num_threads, .compute = DType::kBF16}) {
  }

  TinyModel files;
  OpenedModel model;
  Rig rig;
};

void count(const EngineRun& run, const std::vector<Line>& lines, Counters& counters) {
  const auto is_guided = [&](int64_t index) {
    return !lines[static_cast<size_t>(index)].form.form.is_free();
  };
  ++counters.of["runs"];
  for (const auto& [index, answer] : run.answers) {
    counters.of["answers"] += 1;
    counters.of["preemptions"] += run.requests.at(index).preemptions;
    counters.of["preemptions in a form"] += is_guided(index) * run.requests.at(index).preemptions;
    if (answer.failed()) {
      ++counters.of[std::string(answer.error.code.name())];
    } else {
      counters.of["several samples"] += run.requests.at(index).token_times.size() > 1;
      for (const CompletionChoice& choice : answer.choices) {
        const bool stopped = choice.reason == FinishReason::kStop;
        counters.of["stopped in a form"] += stopped && is_guided(index);
        counters.of["cut off in a form"] += !stopped && is_guided(index);
        ++counters.of[stopped ? "stopped" : "cut off"];
        counters.of["log probabilities"] += choice.log_probs.has_value();
        counters.of["at a stop string"] += stopped && choice.tokens.back() != kTinyStop;
      }
    }
  }
  for (const StepStats& step : run.steps) {
    counters.of["mixed steps"] += step.num_decodes > 0 && step.num_prefill_tokens > 0;
  }
  counters.of["surplus rows"] += num_surplus(run);
}

constexpr Overlap kEither[] = {Overlap::kNo, Overlap::kYes};

// What generation_config.json may say of single tokens.
void vary_bans(ModelSpec& spec, WorkloadRandom& random) {
  const auto some = [&] { return random.one_in(3) ? random.tokens(3, kTinyVocab) : Rig::Tokens{}; };
  spec.suppressed = some();
  spec.suppressed_first = some();
  spec.forced_end.reset();
  if (random.one_in(3)) spec.forced_end = random.one_in(2) ? kTinyStop : kTinyStop + 1;
}

// Random lines on an engine of one to four threads, against each of them alone on one thread.
void compare_with_lines_alone(Forms forms, int first_trial, int num_trials, Counters& counters) {
  Bench alone(tiny_shapes()[0]), two(tiny_shapes()[0], 2), four(tiny_shapes()[0], 4);
  for (int trial = first_trial; trial < first_trial + num_trials; ++trial) {
    INFO("trial " << trial);
    WorkloadRandom random(trial);
    Bench& bench = *std::array{&alone, &two, &four}[static_cast<size_t>(trial % 3)];
    Workload work = random_workload(random, kTinyVocab);
    vary_sampling(work.arrivals, random);
    vary_bans(bench.model.spec, random);
    alone.model.spec = bench.model.spec;
    for (Arrival& arrival : work.arrivals) {
      Request& request = arrival.request;
      if (!random.one_in(6)) continue;
      request.num_samples = random.pick(2, 5);
      request.num_returned = random.pick(1, request.num_samples);
    }
    const std::vector<Line> lines = make_lines(work, random, forms);
    for (const Line& line : lines) {
      const PreparedLine* prepared = std::get_if<PreparedLine>(&line.item);
      counters.of["several prompts"] += prepared != nullptr && prepared->prompts.size() > 1;
    }
    const auto compare = [&](KvPool& pool) {
      scramble(pool, random);
      const EngineRun expected =
          expected_run(alone.rig, work.limits, pool.stats().positions_total, lines);
      const Overlap overlap = kEither[random.pick(0, 1)];
      const EngineRun run = run_engine(bench.rig, pool, work.limits, lines, overlap);
      REQUIRE(bench.rig.num_bad_rows() == 0);
      check_answers(run, expected);
      const auto is_impossible = [](const auto& answer) {
        return answer.second.error.code == "form_impossible";
      };
      if (std::ranges::none_of(run.answers, is_impossible)) check_records(run, overlap);
      count(run, lines, counters);
      counters.of["overlapping runs"] += bench.rig.ops.max_unasked > 1;
    };
    if (random.one_in(3)) work.num_blocks = work.num_blocks / 3 + 1;  // too few for some
    PagedPool blocks(work.num_blocks, work.block_size);
    compare(blocks);
    const int max_model_len = work.limits.max_model_len;
    ContiguousPool reservations(max_model_len * work.num_reservations, max_model_len);
    compare(reservations);
  }
}

}  // namespace

TEST_CASE("the engine answers every line as if it were the only one") {
  Counters counters;
  compare_with_lines_alone(Forms::kNo, 0, scaled(160), counters);
  std::printf("engine: every line answered as if it were the only one\n");
  counters.print_and_require({"runs", "answers", "stopped", "at a stop string", "cut off",
                              "invalid_json", "exceeds_cache", "preemptions", "mixed steps",
                              "overlapping runs", "surplus rows", "several samples",
                              "several prompts", "log probabilities"});
}

TEST_CASE("lines whose answers have a form, and free ones, get the answers of being alone") {
  if (is_skipped_without_grammar()) return;
  Counters counters;
  compare_with_lines_alone(Forms::kSome, 1000, scaled(120), counters);
  std::printf("engine: lines with and without a form answered as if alone\n");
  counters.print_and_require({"runs", "stopped in a form", "cut off in a form", "form_impossible",
                              "preemptions in a form", "stopped", "cut off", "preemptions",
                              "mixed steps", "overlapping runs", "several samples",
                              "several prompts", "log probabilities"});
}

TEST_CASE("a step asks for the log probabilities that its requests want") {
  Bench bench(tiny_shapes()[0]);
  std::set<int> asked;
  bench.rig.ops.on_sample = [&](Tensor, std::span<const SampleRow> rows) {
    for (const SampleRow& row : rows) {
      // The best of several samples are chosen by their log probabilities.
      const int expected = row.key == 9 ? 0 : row.params->num_log_probs;
      CHECK(row.num_log_probs == expected);
      asked.insert(row.num_log_probs);
    }
  };
  std::vector<Line> lines;
  for (const int num_log_probs : {-1, 0, 5}) {
    Request request = make_request(std::ssize(lines), 3, 4, kTinyVocab);
    request.sampling.num_log_probs = num_log_probs;
    lines.push_back({0, line_of(std::move(request), std::ssize(lines))});
  }
  Request best = make_request(std::ssize(lines), 3, 4, kTinyVocab);
  best.random_key = 9;
  best.num_samples = 2;
  lines.push_back({0, line_of(std::move(best), std::ssize(lines))});
  PagedPool pool(16, 4);
  const SchedulerLimits limits = {
      .max_step_tokens = 8, .max_running = 3, .max_waiting = 3, .max_model_len = 32};
  run_engine(bench.rig, pool, limits, lines, Overlap::kNo);
  CHECK(asked == std::set{-1, 0, 5});
}

TEST_CASE("latencies count from the reading of a line, its wait for others included") {
  Bench bench(tiny_shapes()[0]);
  constexpr double kRead = 0.25;
  std::vector<Line> lines;
  for (int i = 0; i < 80; ++i) {
    Request request = make_request(i, 3, 2, kTinyVocab);
    request.sampling.ignore_eos = true;
    PreparedLine line = line_of(std::move(request), i);
    line.head.line = i + 1;
    line.head.arrived = kRead;
    lines.push_back({0, std::move(line)});
  }
  PagedPool pool(16, 4);
  for (const Overlap overlap : kEither) {
    const EngineRun run =
        run_engine(bench.rig, pool,
                   {.max_step_tokens = 8, .max_running = 1, .max_waiting = 1, .max_model_len = 32},
                   lines, overlap);
    REQUIRE(run.requests.size() == lines.size());
    const RequestStats &first = run.requests.at(0), &last = run.requests.at(79);
    for (const RequestStats& stats : {first, last}) {
      CHECK(queue_time(stats) == stats.admitted - kRead);
      CHECK(stats.admitted < stats.first_token);
      CHECK(time_to_first_token(stats) == stats.first_token - kRead);
      CHECK(end_to_end_latency(stats) == stats.finished - kRead);
    }
    // The last one has waited for the others.
    CHECK(end_to_end_latency(last) > 0.99 * (run.steps.back().end - kRead));
    CHECK(end_to_end_latency(last) > 60 * end_to_end_latency(first));
    CHECK(queue_time(last) > 0.97 * end_to_end_latency(last));
  }
}

TEST_CASE("an interrupted engine gives no wrong answer, none twice, and leaks nothing") {
  Bench bench(tiny_shapes()[1]);
  WorkloadRandom random(5);
  Workload work = random_workload(random, kTinyVocab);
  vary_sampling(work.arrivals, random);
  const std::vector<Line> lines = make_lines(work, random);
  PagedPool pool(work.num_blocks, work.block_size);
  for (const Overlap overlap : kEither) {
    const EngineRun whole = run_engine(bench.rig, pool, work.limits, lines, overlap);
    const int num_steps = static_cast<int>(whole.steps.size());
    REQUIRE(num_steps > 20);
    for (int limit = 0; limit <= num_steps; ++limit) {
      INFO("after " << limit << " steps");
      int asked = 0;
      const EngineRun run = run_engine(bench.rig, pool, work.limits, lines, overlap,
                                       {.interrupted = [&] { return asked++ == limit; }});
      REQUIRE(run.thrown == "");
      REQUIRE(asked == limit + 1);
      // A turn may find only lines that are errors, or only the end of a step on its way.
      const int num_idle = limit - static_cast<int>(run.steps.size());
      REQUIRE(num_idle >= 0);
      REQUIRE(num_idle <= (overlap == Overlap::kYes ? 3 : 1));
      for (const auto& [index, answer] : run.answers) {
        REQUIRE(same_answer(answer, whole.answers.at(index)));
      }
      if (run.steps.empty()) continue;
      // With a step on its way the lines behind it have not been looked at.
      const auto num_whole = whole.num_answered[run.steps.size() - 1];
      REQUIRE(std::ssize(run.answers) <= num_whole);
      REQUIRE((overlap == Overlap::kYes || std::ssize(run.answers) == num_whole));
    }
  }
}

TEST_CASE("what a port throws ends the run and leaks nothing") {
  Bench bench(tiny_shapes()[1]);
  WorkloadRandom random(6);
  Workload work = random_workload(random, kTinyVocab);
  const std::vector<Line> lines = make_lines(work, random);
  PagedPool pool(work.num_blocks, work.block_size);
  for (const Overlap overlap : kEither) {
    const EngineRun whole = run_engine(bench.rig, pool, work.limits, lines, overlap);
    const auto require_thrown = [&](const Interference& interference) {
      const EngineRun run = run_engine(bench.rig, pool, work.limits, lines, overlap, interference);
      REQUIRE(run.thrown == "the disk is full");
      for (const auto& [index, answer] : run.answers) {
        REQUIRE(same_answer(answer, whole.answers.at(index)));
      }
      return std::ssize(run.answers);
    };
    for (int limit = 0; limit < std::ssize(whole.steps); ++limit) {
      int asked = 0;
      require_thrown({.interrupted = [&]() -> bool {
        if (asked++ == limit) throw Error("the disk is full");
        return false;
      }});
    }
    for (int limit = 0; limit < std::ssize(whole.answers); ++limit) {
      int answered = 0;
      REQUIRE(limit == require_thrown({.before_answer = [&] {
                if (answered++ == limit) throw Error("the disk is full");
              }}));
    }
  }
}
