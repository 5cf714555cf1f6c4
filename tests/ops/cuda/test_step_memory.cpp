// The memory plan of a GPU is enough for every step of the run.
#include <doctest/doctest.h>

#include "kernels/attention.h"
#include "kernels/sample.h"
#include "model/decoder.h"
#include "ops/cuda/device_arena.h"
#include "ops/cuda/step_arrays.h"
#include "ops/cuda/step_memory.h"
#include "tests/support/cuda_batches.h"
#include "tests/support/idle_ops.h"

namespace pagedinfer {
namespace {

// Takes scratch from an arena.
class ArenaSteps final : public IdleSteps {
 public:
  ArenaSteps(DeviceArena& arena, DType activation) : arena_(arena), activation_(activation) {}

  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override {
    REQUIRE(arena_.take_step(rows * cols * size_of(dtype)).has_value());
    return {memory_.data(), dtype, rows, cols, cols};
  }
  DType activation_type() const override { return activation_; }

 private:
  DeviceArena& arena_;
  DType activation_;
  std::vector<char> memory_ = std::vector<char>(1 << 20);  // never read
};

}  // namespace

TEST_CASE("the memory planned on a GPU is enough for every step") {
  Random random{81};
  for (int run = 0; run < 60; ++run) {
    ModelSpec spec;
    spec.hidden = random.between(1, 300);
    spec.vocab = random.between(2, 3000);
    spec.kv_heads = random.between(1, 4);
    spec.heads = spec.kv_heads * random.between(1, 5);
    spec.head_dim = 2 * random.between(1, 128);
    spec.intermediate = random.between(1, 500);
    spec.layers.resize(static_cast<size_t>(random.between(1, 40)));
    if (random.below(2)) {
      spec.experts = {.count = random.between(1, 30),
                      .per_token = random.between(1, 8),
                      .width = random.between(1, 500),
                      .shared_width = random.below(2) * random.between(1, 500)};
      for (LayerSpec& layer : spec.layers) layer.has_experts = random.below(2) == 1;
    }
    spec.ropes.resize(2);
    for (RopeSpec& rope : spec.ropes) rope.inv_freq.resize(static_cast<size_t>(spec.head_dim) / 2);
    const StepBounds bounds = {.tokens = random.between(1, 600),
                               .sequences = random.between(1, 60),
                               .widest_input = random.between(1, 900),
                               .int8_products = random.below(2) == 1,
                               .experts = {.experts = spec.experts.count,
                                           .per_row = spec.experts.per_token,
                                           .hidden = spec.hidden,
                                           .width = spec.experts.width,
                                           .shared_width = spec.experts.shared_width},
                               .vocab = spec.vocab,
                               .context = random.between(1, 5000),
                               .block_size = random.between(1, 64)};
    AttentionShape attention = attention_shape(spec);
    attention.windows = {0, random.between(1, 700)};
    const DType type = random.below(2) ? DType::kBF16 : DType::kF32;
    const StepMemory planned(attention, bounds, type);

    // As the plan counts, and as the backend takes.
    const int64_t scratch = scratch_bytes(spec, type, false, bounds.tokens, bounds.sequences);
    DeviceArena arena(scratch + planned.total());
    for (const int64_t bytes :
         {planned.products, planned.sample_lists, planned.drawn, planned.counters, planned.arrays,
          planned.int8_input, planned.expert_gates, planned.expert_outputs}) {
      REQUIRE(arena.take_permanent(bytes, DeviceArena::kStepAlignment).has_value());
    }

    ArenaSteps steps(arena, type);
    IdleArithmetic ops;
    Weights none;
    none.layers.resize(spec.layers.size());
    for (LayerWeights& layer : none.layers) {
      layer.experts.resize(static_cast<size_t>(spec.experts.count) + 1);
    }
    none.ropes.resize(2);
    std::vector<KvLayer> cache(spec.layers.size());
    for (int step = 0; step < 10; ++step) {
      const bool decodes = random.below(2);
      const Batch batch = decodes ? random_decodes(random, bounds) : random_batch(random, bounds);
      arena.end_step();
      std::vector<kernels::AttentionPlan> plans;
      plan_step(batch, attention, attention_limits(attention, bounds, random.below(2) ? 132 : 2),
                plans);
      StepShape shape = shape_of(batch, plans);
      if (decodes) shape = padded(shape, attention, bounds);
      const int64_t array_bytes = 4 * lay_out(shape).size;
      CHECK(array_bytes <= planned.arrays);
      const int64_t states = std::max(shape.plans[0].states, shape.plans[1].states);
      REQUIRE(
          arena.take_step(kernels::attention_workspace_bytes(states, spec.kv_heads, spec.head_dim))
              .has_value());
      BatchView view;
      view.tokens.rows = shape.tokens;
      view.logit_tokens.rows = shape.logits;
      forward(spec, none, cache, view, steps, *ops);
      REQUIRE(arena.take_step(kernels::sample_workspace_bytes(batch.num_logits(), spec.vocab))
                  .has_value());
    }
  }
}

}  // namespace pagedinfer
