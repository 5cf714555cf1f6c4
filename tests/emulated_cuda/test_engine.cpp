// The engine on a device that is lost, or refuses a call, with a step in flight.
#include <doctest/doctest.h>

#include "kv/paged_pool.h"
#include "tests/emulated_cuda/runtime.h"
#include "tests/support/engine_run.h"
#include "tests/support/model_runs.h"

using namespace pagedinfer;

namespace {

struct Scene {
  Scene() {
    WorkloadRandom random(4);
    work.limits = {.prefill_chunk_size = 5,
                   .max_step_tokens = 12,
                   .max_running = 4,
                   .max_waiting = 3,
                   .max_model_len = 24,
                   .admission_reserve = 0.0};
    for (int i = 0; i < 6; ++i) {
      work.arrivals.push_back(
          {i / 3, make_request(i, random.pick(1, 9), random.pick(4, 9), kTinyVocab)});
    }
    vary_sampling(work.arrivals, random);
    lines = make_lines(work, random);
  }

  // Runs on a new device that is lost after so many calls.
  EngineRun run(int64_t calls, cudaError_t error = cudaErrorIllegalAddress) {
    return run([&] { emulated::lose_device(calls, error); });
  }
  // Runs on a new device of which one call fails, behind so many.
  EngineRun run_with_fault(int64_t calls, cudaError_t error) {
    return run([&] { emulated::fail_once(calls, error); });
  }
  EngineRun run(const std::function<void()>& disturb) {
    Rig rig(model, CudaOptions{.compute = DType::kF32, .deterministic = true, .graphs = true});
    rig.start();
    rig.ops.on_stage = [](const Batch&) {};
    rig.ops.on_sample = [](Tensor, std::span<const SampleRow>) {};
    disturb();
    EngineRun result = run_engine(rig, pool, work.limits, lines, Overlap::kYes);
    emulated::lose_device(0, cudaSuccess);
    emulated::fail_once(0, cudaSuccess);
    num_failed_graphs = rig.graph_counts().failed;
    return result;
  }
  int64_t num_failed_graphs = 0;  // of the last run

  TinyModel files{tiny_shapes()[1]};
  OpenedModel model = open_model(files.dir());
  PagedPool pool{6, 4};
  Workload work;
  std::vector<Line> lines;
};

}  // namespace

TEST_CASE("on a GPU: if it is lost with a step in flight, earlier answers are kept") {
  Scene scene;
  const EngineRun whole = scene.run(int64_t{1} << 40);
  REQUIRE(whole.thrown == "");
  CHECK(num_surplus(whole) > 0);
  int num_lost = 0;
  size_t max_answered = 0;
  for (int64_t calls = 0;; calls += 41) {
    INFO("behind " << calls << " calls");
    const EngineRun run = scene.run(calls);
    for (const auto& [index, answer] : run.answers) {
      REQUIRE(same_answer(answer, whole.answers.at(index)));
    }
    if (run.thrown == "") break;
    REQUIRE(run.thrown.starts_with("the GPU was lost"));
    max_answered = std::max(max_answered, run.answers.size());
    ++num_lost;
  }
  MESSAGE(num_lost << " times, with " << max_answered << " answers at most");
  CHECK(num_lost > 15);
  CHECK(max_answered > 2);
}

TEST_CASE("emulated: an error that does not tell whether the device is lost ends a run if it is") {
  Scene scene;
  const EngineRun whole = scene.run(int64_t{1} << 40);
  for (const cudaError_t error : {cudaErrorUnknown, cudaErrorIllegalState}) {
    int num_mended = 0, num_lost = 0;
    for (int64_t calls = 0;; calls += 397) {
      INFO("error " << error << " behind " << calls << " calls");
      const EngineRun disturbed = scene.run_with_fault(calls, error);
      REQUIRE(disturbed.thrown == "");
      REQUIRE(disturbed.answers.size() == whole.answers.size());
      for (const auto& [index, answer] : disturbed.answers) {
        REQUIRE(same_answer(answer, whole.answers.at(index)));
      }
      num_mended += scene.num_failed_graphs > 0;  // by queueing the step eagerly
      const EngineRun lost = scene.run(calls, error);
      if (lost.thrown.empty()) break;
      REQUIRE(lost.thrown.starts_with("the GPU was lost"));
      ++num_lost;
    }
    CHECK(num_mended > 0);
    CHECK(num_lost > 0);
  }
}

TEST_CASE("emulated: a run whose graphs cannot be instantiated goes on without graphs") {
  Scene scene;
  const EngineRun expected = scene.run(int64_t{1} << 40);
  CHECK(scene.num_failed_graphs == 0);
  const emulated::KeptSettings kept;
  emulated::settings().refuses_graphs = true;
  const int64_t launched = emulated::counts().graph_launches;
  const EngineRun found = scene.run(int64_t{1} << 40);
  CHECK(found.thrown == "");
  CHECK(scene.num_failed_graphs > 0);
  CHECK(emulated::counts().graph_launches == launched);
  REQUIRE(found.answers.size() == expected.answers.size());
  for (const auto& [index, answer] : found.answers) {
    CHECK(same_answer(answer, expected.answers.at(index)));
  }
}

TEST_CASE("emulated: a later run over a model allocates nothing, and no graph outlives a cache") {
  const TinyModel files({.max_positions = 256, .dtype = DType::kBF16});
  const std::vector<Request> requests = requests_of(61);
  LoadedModel model =
      load_model(configs_of_runs(files.dir(), Config::Device::kCuda), [] { return 0.0; });
  const int64_t allocations = emulated::counts().allocations;
  const int64_t graphs = emulated::counts().graph_launches;
  const auto expected = answer_all(model, model.plan.runs.front(), requests);
  CHECK(expected.size() == requests.size());
  for (const RunPlan& plan : model.plan.runs) {
    CHECK(answer_all(model, plan, requests) == expected);
  }
  CHECK(emulated::counts().allocations == allocations);
  CHECK(emulated::counts().graph_launches > graphs);
}
