// The engine on a GPU, where the host waits only for tokens: a buffer of one step that the next
// step overwrites too early shows as a wrong answer.
#include <algorithm>

#include "kv/paged_pool.h"
#include "tests/support/cuda_support.h"
#include "tests/support/engine_run.h"

using namespace pagedinfer;

TEST_CASE(
    "on a GPU: the engine answers as if each line were the only one, steps overlapping or not") {
  if (skips_without_gpu()) return;
  for (const int shape : {0, 4}) {
    const TinyModel files(tiny_shapes()[static_cast<size_t>(shape)]);
    const OpenedModel model = open_model(files.dir());
    Rig rig(model, CudaOptions{.compute = DType::kBF16, .deterministic = true});
    Rig graphs(model, CudaOptions{.compute = DType::kBF16, .deterministic = true, .graphs = true});
    for (Rig* watched : {&rig, &graphs}) {
      // Looking at the cache and at logits waits for the device.
      watched->ops.on_stage = [](const Batch&) {};
      watched->ops.on_sample = [](Tensor, std::span<const SampleRow>) {};
    }
    int surplus = 0, preempted = 0;
    for (int trial = 0; trial < gpu_trials(40); ++trial) {
      INFO("shape " << shape << ", trial " << trial);
      WorkloadRandom random(7000 + trial);
      Workload work = random_workload(random, kTinyVocab);
      work.arrivals.resize(std::min<size_t>(work.arrivals.size(), 12));
      vary_sampling(work.arrivals, random);
      const std::vector<Line> lines = make_lines(work, random);
      PagedPool pool(work.num_blocks, work.block_size);
      scramble(pool, random);
      const EngineRun expected =
          expected_run(rig, work.limits, pool.stats().positions_total, lines);
      for (const Overlap overlap : {Overlap::kNo, Overlap::kYes}) {
        Rig& tested = trial % 4 == 3 ? rig : graphs;
        const EngineRun run = run_engine(tested, pool, work.limits, lines, overlap);
        check_answers(run, expected);
        check_records(run, overlap);
        surplus += num_surplus(run);
        for (const StepStats& step : run.steps) preempted += step.preempted;
      }
    }
    MESSAGE(surplus << " surplus rows, " << preempted << " preemptions");
    CHECK(surplus > 0);
    const GraphCounts counts = graphs.graph_counts();
    MESSAGE(counts.eager << " decode steps eager, " << counts.captured << " captured, "
                         << counts.replayed << " replayed");
    CHECK(counts.replayed > 0);
    CHECK(counts.failed == 0);
  }
}
