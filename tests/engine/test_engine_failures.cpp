// Failures in the middle of a step: before or after any call of it, once, twice or for ever.
#include <doctest/doctest.h>

#include <new>
#include <utility>

#include "core/error.h"
#include "kv/paged_pool.h"
#include "tests/support/engine_run.h"
#include "tests/support/sanitized.h"

using namespace pagedinfer;

namespace {

// A run with chunked prompts, preemptions, filters and penalties, small enough to be repeated
// with a failure at each of its calls.
struct FailureScene {
  explicit FailureScene(Overlap o, int num_samples = 1)
      : model(open_model(files.dir())), rig(model, options()), overlap(o), pool(6, 4) {
    WorkloadRandom random(3);
    Workload work;
    for (int i = 0; i < 8; ++i) {
      work.arrivals.push_back(
          {i / 3, make_request(i, random.pick(1, 9), random.pick(4, 9), kTinyVocab)});
    }
    vary_sampling(work.arrivals, random);
    for (size_t i = 0; i < work.arrivals.size(); i += 2) {
      Request& request = work.arrivals[i].request;
      request.num_samples = request.num_returned = num_samples;
    }
    lines = make_lines(work, random);
    whole = run();
    num_copies = rig.ops.num_copies;
    REQUIRE((num_copies > 0) == (num_samples > 1));
    REQUIRE(whole.thrown == "");
    for (const auto& [index, stats] : whole.requests) num_preemptions += stats.preemptions;
    REQUIRE(num_preemptions > 0);
    REQUIRE((num_surplus(whole) > 0) == (overlap == Overlap::kYes));
  }

  void keep_first_prompts() {
    for (Line& line : lines) {
      if (auto* const prepared = std::get_if<PreparedLine>(&line.item)) prepared->prompts.resize(1);
    }
    whole = run();
  }

  static CpuOptions options() {
    return {.isa = available_isas().back(), .num_threads = 1, .compute = DType::kF32};
  }

  EngineRun run() { return run_engine(rig, pool, limits, lines, overlap); }

  // Calls `fail` around each call of a step, with its number in the run.
  EngineRun run(const std::function<void(int number)>& fail) {
    int number = 0;
    rig.ops.around = [&](bool) { fail(number++); };
    EngineRun result = run();
    rig.ops.around = [](bool) {};
    num_calls = number;
    return result;
  }

  TinyModel files{tiny_shapes()[1]};
  OpenedModel model;
  Rig rig;
  Overlap overlap;
  PagedPool pool;
  SchedulerLimits limits = {.prefill_chunk_size = 5,
                            .max_step_tokens = 12,
                            .max_running = 4,
                            .max_waiting = 3,
                            .max_model_len = 24,
                            .admission_reserve = 0.0};
  std::vector<Line> lines;
  EngineRun whole;  // without a failure
  int num_calls = 0, num_preemptions = 0;
  int64_t num_copies = 0;  // without a failure
};

[[noreturn]] void fail_somehow(int kind) {
  switch (kind % 3) {
    case 0: throw Error("out of paper");
    case 1: throw std::bad_alloc();
    default: throw std::logic_error("cannot be");
  }
}

int num_failures(const EngineRun& run) {
  int failures = 0;
  for (const StepStats& step : run.steps) failures += step.failures;
  return failures;
}

constexpr Overlap kBothOverlaps[] = {Overlap::kNo, Overlap::kYes};

constexpr int kStride = kSanitized ? 13 : 1;

}  // namespace

TEST_CASE("a step that fails once is made good, wherever it failed") {
  for (const Overlap overlap : kBothOverlaps) {
    FailureScene scene(overlap);
    scene.run([](int) {});
    const int num_calls = scene.num_calls;
    for (int at = 0; at < num_calls; at += kStride) {
      INFO("at call " << at);
      const EngineRun run = scene.run([&](int number) {
        if (number == at) fail_somehow(at);
      });
      REQUIRE(num_failures(run) == 1);
      check_answers(run, scene.whole);
      REQUIRE(run.steps.size() == scene.whole.steps.size());
    }
    std::printf("engine: a failure at each of %d places, %d preemptions, %d surplus rows\n",
                num_calls, scene.num_preemptions, num_surplus(scene.whole));
  }
}

TEST_CASE("copies of a step are carried out once, but again where they failed") {
  for (const Overlap overlap : kBothOverlaps) {
    FailureScene scene(overlap, 2);
    scene.run([](int) {});
    const int num_calls = scene.num_calls;
    int num_repeated = 0;
    for (int at = 0; at < num_calls; at += kStride) {
      INFO("at call " << at);
      scene.rig.ops.num_copies = 0;
      int64_t again = 0;
      const EngineRun run = scene.run([&](int number) {
        if (number != at) return;
        if (scene.rig.ops.copies) again = scene.rig.ops.num_staged_copies;
        fail_somehow(at);
      });
      check_answers(run, scene.whole);
      REQUIRE(run.steps.size() == scene.whole.steps.size());
      REQUIRE(scene.rig.ops.num_copies == scene.num_copies + again);
      num_repeated += again > 0;
    }
    REQUIRE((kSanitized || num_repeated > 2));
  }
}

TEST_CASE("a step that fails twice fails its own requests and no others") {
  for (const Overlap overlap : kBothOverlaps) {
    FailureScene scene(overlap);
    scene.keep_first_prompts();  // so that a line is one sequence
    scene.run([](int) {});
    const int num_calls = scene.num_calls;
    const auto note_stage = scene.rig.ops.on_stage;
    int num_in_step = 0, num_before = 0, num_lost = 0, num_cases = 0;
    bool lost_two = false;  // the tokens of a step, and so those of the one on top
    scene.rig.ops.on_stage = [&](const Batch& batch) {
      note_stage(batch);
      num_before = std::exchange(num_in_step, batch.num_seqs());
    };
    for (int at = 1; at < num_calls; at += kStride) {  // the first call's step is staged by then
      INFO("at call " << at);
      int num_failing = 0;
      const EngineRun run = scene.run([&](int number) {
        const bool again = num_failing == 1 && number > at + at % 23;
        if (number != at && !again) return;
        ++num_failing;
        lost_two = overlap == Overlap::kYes && scene.rig.ops.collects;
        num_lost = num_in_step + (lost_two ? num_before : 0);
        fail_somehow(at);
      });
      REQUIRE(run.thrown == "");
      REQUIRE(num_failures(run) == num_failing);
      if (num_failing < 2) continue;  // too near the end
      ++num_cases;
      REQUIRE(run.answers.size() == scene.lines.size());
      int num_failed = 0, num_answered = 0;
      for (const auto& [index, answer] : run.answers) {
        if (answer.error.code != "step_failed") {
          REQUIRE(same_answer(answer, scene.whole.answers.at(index)));
          continue;
        }
        ++num_failed;
        REQUIRE(answer.error.message.size() > 20);
        REQUIRE(answer.choices.empty());
        REQUIRE(run.requests.at(index).completion_tokens == 0);
      }
      // The second failure may have come after its step was done, and then costs nothing.
      bool twice_in_one = false;
      for (size_t i = 0; i < run.steps.size(); ++i) {
        const int before = num_answered;
        num_answered = run.num_answered[i];
        if (run.steps[i].failures < 2) continue;
        twice_in_one = true;
        REQUIRE(num_answered - before >= num_failed);
      }
      REQUIRE(num_failed <= (twice_in_one ? num_lost : 0));
      REQUIRE((lost_two || num_failed == (twice_in_one ? num_lost : 0)));
    }
    REQUIRE(num_cases > num_calls / kStride / 2);
    scene.rig.ops.on_stage = note_stage;
  }
}

TEST_CASE("a device that fails from some call on answers every line, with errors from there") {
  for (const Overlap overlap : kBothOverlaps) {
    FailureScene scene(overlap);
    scene.run([](int) {});
    const int num_calls = scene.num_calls;
    for (int from = 0; from < num_calls; from += 7 * kStride) {
      INFO("from call " << from);
      const EngineRun run = scene.run([&](int number) {
        if (number >= from) fail_somehow(number);
      });
      REQUIRE(run.thrown == "");
      REQUIRE(run.answers.size() == scene.lines.size());
      for (const auto& [index, answer] : run.answers) {
        if (answer.error.code != "step_failed") {
          REQUIRE(same_answer(answer, scene.whole.answers.at(index)));
        }
      }
    }
  }
}

TEST_CASE("a lost device ends the run at once, and what was answered stands") {
  for (const Overlap overlap : kBothOverlaps) {
    FailureScene scene(overlap);
    scene.run([](int) {});
    const int num_calls = scene.num_calls;
    for (int at = 0; at < num_calls; at += 3 * kStride) {
      INFO("at call " << at);
      const EngineRun run = scene.run([&](int number) {
        REQUIRE(number <= at);
        if (number == at) throw DeviceLost("the device is gone");
      });
      REQUIRE(run.thrown == "the device is gone");
      // All may be answered, and a step of nothing but surplus rows on its way.
      REQUIRE(run.answers.size() + (overlap == Overlap::kNo) <= scene.lines.size());
      for (const auto& [index, answer] : run.answers) {
        REQUIRE(same_answer(answer, scene.whole.answers.at(index)));
      }
    }
  }
}

TEST_CASE("logits that are no numbers end their own request only") {
  for (const Overlap overlap : kBothOverlaps) {
    FailureScene scene(overlap);
    const auto note_sample = scene.rig.ops.on_sample;
    for (const Line& line : scene.lines) {
      const auto* prepared = std::get_if<PreparedLine>(&line.item);
      if (prepared == nullptr) continue;
      const Request& request = prepared->prompts.front();
      const Completion& answer = scene.whole.answers.at(prepared->head.index);
      for (size_t token = 0; token < answer.choices[0].tokens.size(); ++token) {
        const auto position = static_cast<uint32_t>(request.prompt.size() + token);
        const float spoiled = token % 2 == 0 ? __builtin_nanf("") : -__builtin_inff();
        scene.rig.ops.on_sample = [&](Tensor logits, std::span<const SampleRow> rows) {
          for (const SampleRow& row : rows) {
            if (row.key != request.random_key || row.position != position) continue;
            std::fill_n(logits.row<float>(row.logits_row), logits.cols, spoiled);
          }
        };
        const EngineRun run = scene.run();
        REQUIRE(run.thrown == "");
        REQUIRE(run.answers.size() == scene.lines.size());
        for (const auto& [index, other] : run.answers) {
          if (index == prepared->head.index) {
            REQUIRE(other.error.code == "no_finite_logits");
          } else {
            REQUIRE(same_answer(other, scene.whole.answers.at(index)));
          }
        }
      }
    }
    scene.rig.ops.on_sample = note_sample;
  }
}
