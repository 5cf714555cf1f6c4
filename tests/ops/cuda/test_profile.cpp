// Timing on a GPU: marks, peaks, and that a profiled run draws the same tokens.
#include <cmath>

#include "model/decoder.h"
#include "model/model.h"
#include "model/weights.h"
#include "ops/peaks.h"
#include "ops/timed_ops.h"
#include "tests/support/cuda_support.h"
#include "tests/support/tiny_model.h"

namespace pagedinfer {
namespace {

// Greedy tokens of one sequence: a prompt of three, then one after the other.
std::vector<TokenId> tokens_of(const OpenedModel& model, const Weights& weights,
                               std::vector<KvLayer>& cache, StepProtocol& steps, Arithmetic& ops,
                               int num_tokens) {
  const SamplingParams greedy = {};
  const SampleRow row = {.params = &greedy};
  std::vector<TokenId> tokens = {1, 5, 2};
  for (int done = 0; static_cast<int>(tokens.size()) < num_tokens;) {
    const int end = static_cast<int>(tokens.size());
    Batch batch = {.query_starts = {0, end - done},
                   .context_lens = {end},
                   .block_table = {0},
                   .logit_tokens = {end - done - 1},
                   .max_blocks = 1,
                   .block_size = 64};
    for (; done < end; ++done) {
      batch.tokens.push_back(tokens[static_cast<size_t>(done)]);
      batch.positions.push_back(done);
      batch.slot_mapping.push_back(done);
    }
    const BatchView view = steps.stage(batch);
    const Tensor logits =
        steps.run(view, [&] { return forward(model.spec, weights, cache, view, steps, ops); });
    DrawnToken drawn;
    steps.collect(steps.sample(logits, {&row, 1}), {&drawn, 1});
    tokens.push_back(drawn.token);
  }
  return tokens;
}

}  // namespace

TEST_CASE("on a GPU marks are queued between the work and are taken in order") {
  if (skips_without_gpu()) return;
  const auto ops = make_cuda_ops({});
  const StepBounds bounds = {
      .tokens = 16, .sequences = 1, .widest_input = 16, .vocab = 16, .context = 16};
  ops->memory().reserve_steps(bounds, 64 * kMiB + ops->memory().workspace_bytes(bounds));
  const Tensor from = ops->steps().scratch(DType::kF32, 4, 1 << 20);
  const Tensor to = ops->steps().scratch(DType::kF32, 4, 1 << 20);
  std::vector<float> values(4 << 20), found(4 << 20);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  ops->write(values.data(), from);

  const auto timer = ops->timing().make_timer({});
  std::vector<double> seconds(3, std::nan(""));
  for (int i = 0; i < 2; ++i) {
    timer->mark();
    ops->timing().copy(from, to);
    timer->mark();
  }
  timer->take(seconds);
  CHECK(seconds[0] == 0);
  CHECK(seconds[1] > 0);
  CHECK(seconds[2] >= 0);
  timer->take({seconds.data(), 1});
  CHECK(seconds[0] > 0);
  timer->mark();  // reuses an event
  timer->take({seconds.data(), 1});
  CHECK(seconds[0] >= 0);
  ops->read(to, found.data());
  CHECK(found == values);
}

TEST_CASE("on a GPU the peaks are numbers") {
  if (skips_without_gpu()) return;
  const PeakProbe probe = {.copied_bytes = 4 << 20, .rows = 48, .width = 64};
  for (const DType compute : {DType::kBF16, DType::kF16, DType::kF32}) {
    const auto ops = make_cuda_ops({.compute = compute});
    const DevicePeaks peaks = measure_peaks(*ops, compute, probe, {});
    CHECK(peaks.bytes_per_second > 0);
    CHECK(peaks.flops_per_second > 0);
    CHECK(std::isfinite(peaks.bytes_per_second));
    CHECK(std::isfinite(peaks.flops_per_second));
  }
}

TEST_CASE("on a GPU a profile changes no token, and times a replayed step as one operation") {
  if (skips_without_gpu()) return;
  const TinyModel files({.seed = 21, .head_dim = 64, .dtype = DType::kBF16});
  const OpenedModel model = open_model(files.dir());
  constexpr int kTokens = 44;
  std::vector<TokenId> expected;
  for (const bool graphs : {false, true}) {
    const auto ops = make_gpu(model.spec, {.deterministic = true, .graphs = graphs});
    const Weights weights = load_weights(model, DType::kBF16, ops->memory());
    std::vector<KvLayer> cache;
    for (size_t i = 0; i < model.spec.layers.size(); ++i) {
      cache.push_back(
          ops->memory().allocate_kv(DType::kBF16, model.spec.kv_heads, model.spec.head_dim, 64));
    }
    if (expected.empty()) {
      expected = tokens_of(model, weights, cache, ops->steps(), ops->arithmetic(), kTokens);
    }
    std::vector<TimedStep> steps;
    const auto timer = ops->timing().make_timer({});
    TimedOps timed(ops->steps(), ops->arithmetic(), *timer,
                   [&](const TimedStep& step) { steps.push_back(step); });
    CHECK(tokens_of(model, weights, cache, timed, timed.arithmetic(), kTokens) == expected);

    REQUIRE(steps.size() == kTokens - 3);
    int pieces = 0;
    for (const TimedStep& step : steps) {
      pieces += step.ops[0].name.kind == kReplayName;
      for (const TimedOp& op : step.ops) CHECK(op.seconds >= 0);
      CHECK(step.ops.back().name.kind == kSampleName);
    }
    // Of 40 decode steps the second and every sixteenth after it are timed by operation.
    CHECK(pieces == (graphs ? kTokens - 4 - 3 : 0));
    CHECK((ops->graph_counts().replayed > 0) == graphs);
  }
}

}  // namespace pagedinfer
