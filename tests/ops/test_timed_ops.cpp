// Timing the calls of a step: exact times by a clock that only the calls advance, the minimum time
// of a known model's step, and that timing changes no result.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "model/decoder.h"
#include "model/model.h"
#include "ops/timed_ops.h"
#include "tests/support/idle_ops.h"
#include "tests/support/model_runner.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

// A device with shapes but no memory, whose calls advance the clock by given seconds.
class SlowSteps final : public IdleSteps {
 public:
  double now = 0;
  double staging = 0, sampling = 0;
  bool replays = false;
  int num_replayed = 0;
  int num_on_host = 0;

  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override {
    return {&somewhere_, dtype, rows, cols, cols};
  }
  DType activation_type() const override { return DType::kBF16; }
  BatchView stage(const Batch& batch) override {
    now += staging;
    const auto column = [&](const std::vector<int32_t>& values) {
      return scratch(DType::kI32, static_cast<int64_t>(values.size()), 1);
    };
    return {.tokens = column(batch.tokens),
            .positions = column(batch.positions),
            .slot_mapping = column(batch.slot_mapping),
            .query_starts = column(batch.query_starts),
            .context_lens = column(batch.context_lens),
            .block_table = column(batch.block_table),
            .logit_tokens = column(batch.logit_tokens)};
  }
  bool may_replay() const override { return replays; }
  Tensor run(const BatchView&, const std::function<Tensor()>& queue) override {
    if (++num_replayed % 3 == 1) return queue();  // captures the step
    now += 2;
    return {};
  }
  void run_on_host(int count, const std::function<void(int)>&) override { num_on_host += count; }
  Ticket sample(Tensor logits, std::span<const SampleRow> rows) override {
    now += sampling;
    return IdleSteps::sample(logits, rows);
  }

 private:
  char somewhere_ = 0;
};

// Steps of `tokens` tokens for each of `seqs` sequences, the last at position context - 1.
Batch batch_of(int seqs, int tokens, int context, int logits) {
  Batch batch = {.query_starts = {0}};
  for (int s = 0; s < seqs; ++s) {
    batch.query_starts.push_back(tokens * (s + 1));
    batch.context_lens.push_back(context);
  }
  batch.tokens.resize(static_cast<size_t>(seqs * tokens));
  batch.positions = batch.slot_mapping = batch.tokens;
  batch.logit_tokens.resize(static_cast<size_t>(logits));
  return batch;
}

struct Scene {
  SlowSteps slow;
  double norm_seconds = 0;
  bool norm_throws = false;
  IdleArithmetic arithmetic{[this](const OpName& name) {
    if (name.kind != "norm") return;
    slow.now += norm_seconds;
    if (norm_throws) throw std::runtime_error("spoilt");
  }};
  bool clock_throws = false;
  ClockTimer timer{[this] {
    if (clock_throws) throw std::runtime_error("no mark");
    return slow.now;
  }};
  std::vector<TimedStep> steps;
  TimedOps ops{slow, *arithmetic, timer, [this](const TimedStep& step) { steps.push_back(step); }};

  void norm(double seconds) {
    norm_seconds = seconds;
    ops.arithmetic().rms_norm({}, {}, 0, 0, {});
  }
  void sample(double seconds) {
    slow.sampling = seconds;
    ops.collect(ops.sample({}, {}), {});
  }
};

}  // namespace

TEST_CASE("timing: operations have their own seconds, and gaps all the others") {
  Scene scene;
  scene.slow.staging = 0.25;
  scene.slow.now = 100;
  scene.ops.stage(batch_of(2, 1, 5, 2));
  scene.norm(1);
  scene.norm(2);
  scene.slow.now += 8;
  scene.sample(4);
  REQUIRE(scene.steps.size() == 1);
  const TimedStep& first = scene.steps[0];
  CHECK_FALSE(first.gap);  // nothing came before
  CHECK(first.decode_only);
  REQUIRE(first.ops.size() == 3);
  CHECK(first.ops[0].seconds == 1);
  CHECK(first.ops[1].seconds == 2);
  CHECK(first.ops[2].seconds == 4);
  CHECK(first.ops[2].name == OpName{kSampleName});

  scene.slow.now += 16;
  scene.ops.stage(batch_of(2, 3, 5, 2));
  scene.norm(1);
  scene.slow.now += 0.5;  // before the tokens are drawn
  scene.sample(1);
  REQUIRE(scene.steps.size() == 2);
  CHECK(scene.steps[1].gap == 16 + 0.25 + 0.5);
  CHECK_FALSE(scene.steps[1].decode_only);
}

TEST_CASE("timing: the device divides the work on the host among its threads") {
  Scene scene;
  scene.ops.run_on_host(3, [](int) { FAIL("not by the device"); });
  CHECK(scene.slow.num_on_host == 3);
}

TEST_CASE("timing: a step after an idle time has no gap") {
  Scene scene;
  for (int i = 0; i < 3; ++i) {
    scene.slow.now += 10;
    if (i == 1) scene.ops.idle();
    scene.ops.stage(batch_of(1, 1, 1, 1));
    scene.norm(1);
    scene.sample(1);
  }
  REQUIRE(scene.steps.size() == 3);
  CHECK_FALSE(scene.steps[0].gap);
  CHECK_FALSE(scene.steps[1].gap);
  CHECK(scene.steps[2].gap == 10);
}

TEST_CASE("timing: a step that draws nothing is reported with the next that does") {
  Scene scene;
  scene.ops.stage(batch_of(1, 4, 4, 0));
  scene.norm(3);
  CHECK(scene.steps.empty());
  scene.slow.now += 7;
  scene.ops.stage(batch_of(1, 4, 8, 1));
  scene.norm(5);
  scene.sample(1);
  REQUIRE(scene.steps.size() == 2);
  CHECK(scene.steps[0].ops.at(0).seconds == 3);
  CHECK(scene.steps[1].ops.at(0).seconds == 5);
  CHECK(scene.steps[1].gap == 7);
}

TEST_CASE("timing: a step is reported when its tokens are collected, with the next one in flight") {
  Scene scene;
  scene.ops.stage(batch_of(1, 1, 1, 1));
  scene.norm(3);
  const StepProtocol::Ticket first = scene.ops.sample({}, {});
  scene.slow.now += 2;
  scene.ops.stage(batch_of(1, 1, 2, 1));
  scene.norm(5);
  const StepProtocol::Ticket second = scene.ops.sample({}, {});
  CHECK(scene.steps.empty());
  for (int times = 0; times < 2; ++times) {  // the second time reports nothing new
    scene.ops.collect(first, {});
    REQUIRE(scene.steps.size() == 1);
    CHECK(scene.steps[0].ops.at(0).seconds == 3);
  }
  scene.ops.collect(second, {});
  REQUIRE(scene.steps.size() == 2);
  CHECK(scene.steps[1].ops.at(0).seconds == 5);
  CHECK(scene.steps[1].gap == 2);
}

TEST_CASE("timing: a call or a mark that throws does not change the times of others") {
  for (const bool mark_throws : {false, true}) {
    Scene scene;
    scene.ops.stage(batch_of(1, 1, 1, 1));
    scene.norm(1);
    (mark_throws ? scene.clock_throws : scene.norm_throws) = true;
    CHECK_THROWS_AS(scene.norm(2), std::runtime_error);
    scene.clock_throws = scene.norm_throws = false;
    scene.ops.stage(batch_of(1, 1, 1, 1));
    scene.norm(4);
    scene.sample(8);
    REQUIRE(scene.steps.size() == 2);
    REQUIRE(scene.steps[0].ops.size() == 1);
    CHECK(scene.steps[0].ops[0].seconds == 1);
    CHECK(scene.steps[1].gap == 2);
    REQUIRE(scene.steps[1].ops.size() == 2);
    CHECK(scene.steps[1].ops[0].seconds == 4);
    CHECK(scene.steps[1].ops[1].seconds == 8);
  }
}

namespace {

// The weights of a plain Llama, as shapes.
Weights shapes_of(const ModelSpec& spec, SlowSteps& ops) {
  const auto matrix = [&](int64_t out, int64_t in) { return ops.scratch(DType::kBF16, out, in); };
  const Tensor norm = ops.scratch(DType::kF32, 1, spec.hidden);
  const int64_t q_dim = int64_t{spec.heads} * spec.head_dim;
  const int64_t kv_dim = int64_t{spec.kv_heads} * spec.head_dim;
  Weights weights;
  weights.embedding = weights.output = matrix(spec.vocab, spec.hidden);
  weights.final_norm = norm;
  weights.ropes.assign(spec.ropes.size(), {.used = ops.scratch(DType::kF32, 1, spec.head_dim / 2)});
  LayerWeights layer;
  layer.attention_norm = layer.mlp_norm = norm;
  layer.q = matrix(q_dim, spec.hidden);
  layer.k = layer.v = matrix(kv_dim, spec.hidden);
  layer.attention_out = matrix(spec.hidden, q_dim);
  layer.gate = layer.up = matrix(spec.intermediate, spec.hidden);
  layer.down = matrix(spec.hidden, spec.intermediate);
  weights.layers.assign(spec.layers.size(), layer);
  return weights;
}

}  // namespace

TEST_CASE("timing: the floor of a known model's decode step is the sum of its operations") {
  Scene scene;
  const ModelSpec spec =
      open_model(source_dir() + "/datasets/configs/llama-3.2-3b-instruct", WeightSource::kDummy)
          .spec;
  const Weights weights = shapes_of(spec, scene.slow);
  const Tensor positions = scene.slow.scratch(DType::kBF16, 1, 1);
  std::vector<KvLayer> cache(
      spec.layers.size(),
      {.k = positions, .v = positions, .kv_heads = spec.kv_heads, .head_dim = spec.head_dim});
  const BatchView view = scene.ops.stage(batch_of(64, 1, 512, 64));
  const Tensor logits = forward(spec, weights, cache, view, scene.ops, scene.ops.arithmetic());
  scene.ops.collect(scene.ops.sample(logits, {}), {});

  // A GPU's copy bandwidth and its rate of bfloat16 products.
  const DevicePeaks peaks = {.bytes_per_second = 4.3e12, .flops_per_second = 790e12};
  std::map<OpName, double> milliseconds;
  double total = 0;
  for (const TimedOp& op : scene.steps.at(0).ops) {
    milliseconds[op.name] += 1e3 * bound_of(op.work, peaks);
    total += 1e3 * bound_of(op.work, peaks);
  }
  const auto near = [](double expected) { return doctest::Approx(expected).epsilon(1e-9); };
  const auto product = [&](int64_t in, int64_t out) {
    return milliseconds.at({"matmul", in, out});
  };
  const double gated = milliseconds.at({"matmul and gate", 3072, 16384});
  CHECK(product(3072, 5120) == near(28.0 * 32505856 / 4.3e9));
  CHECK(product(3072, 3072) == near(28.0 * 19660800 / 4.3e9));
  CHECK(gated == near(28.0 * 102105088 / 4.3e9));
  CHECK(product(8192, 3072) == near(28.0 * 51773440 / 4.3e9));
  CHECK(product(3072, 128256) == near((820838400 + 64 * 3072 * 2) / 4.3e9));  // and its input
  CHECK(milliseconds.at({"attention"}) == near(28.0 * 135004160 / 4.3e9));
  CHECK(milliseconds.at({kSampleName}) == near(32833536 / 4.3e9));
  CHECK(total == doctest::Approx(2.449).epsilon(0.003));
}

TEST_CASE("timing: of steps that are replayed one in sixteen is timed by operation") {
  Scene scene;
  scene.slow.replays = true;
  const auto queue = [&] {
    scene.norm(1);
    scene.norm(4);
    return Tensor{};
  };
  for (int i = 0; i < 40; ++i) {
    const BatchView view = scene.ops.stage(batch_of(1, 1, 1, 1));
    if (i == 20) {
      scene.norm_throws = true;
      const int recordings = scene.slow.num_replayed;
      while (scene.slow.num_replayed % 3 != 0) scene.slow.run(view, queue);
      CHECK_THROWS(scene.ops.run(view, queue));
      scene.norm_throws = false;
      CHECK(scene.slow.num_replayed > recordings);
    } else {
      scene.ops.run(view, queue);
    }
    scene.sample(0.5);
  }
  REQUIRE(scene.steps.size() == 40);
  int timed = 0;
  for (const TimedStep& step : scene.steps) {
    if (step.ops.size() == 1) continue;  // the one that threw
    if (step.ops[0].name.kind == kReplayName) {
      REQUIRE(step.ops.size() == 2);
      CHECK((step.ops[0].seconds == 2 || step.ops[0].seconds == 5));
    } else {
      REQUIRE(step.ops.size() == 3);
      CHECK(step.ops[1].seconds == 4);
      ++timed;
    }
    CHECK(step.ops.back().seconds == 0.5);
  }
  CHECK(timed == 3);
  CHECK(scene.steps[1].ops.size() == 3);
}

TEST_CASE("timing: a step's logits are the same, bit for bit") {
  ModelRunner runner(source_dir() + "/datasets/story-gemma3", DType::kBF16);
  runner.start(64);
  const std::vector<std::vector<float>> expected = runner.run({1, 17, 254, 9, 12}, {2, 4});
  ClockTimer timer([] { return 0.0; });
  TimedOps timed(runner.ops->steps(), runner.ops->arithmetic(), timer, [](const TimedStep&) {});
  timed.stage({});
  runner.arithmetic = &timed.arithmetic();
  runner.start(64);
  CHECK(runner.run({1, 17, 254, 9, 12}, {2, 4}) == expected);
}

}  // namespace pagedinfer
