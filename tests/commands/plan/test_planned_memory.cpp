// The plan of a run beside what it allocates.
#include <doctest/doctest.h>

#include "core/batch.h"
#include "core/error.h"
#include "model/decoder.h"
#include "tests/support/model_runs.h"
#include "tests/support/tiny_model.h"

namespace pagedinfer {
namespace {

double no_clock() { return 0; }

TinyModelOptions random_model(WorkloadRandom& random, int number) {
  TinyModelOptions options = {.seed = static_cast<uint32_t>(number),
                              .hidden = 8 * random.pick(1, 6),
                              .layers = random.pick(1, 4),
                              .kv_heads = random.pick(1, 3),
                              .head_dim = 4 * random.pick(1, 8),
                              .intermediate = random.pick(9, 90),
                              .vocab = random.pick(40, 300),
                              .tied = random.one_in(2)};
  options.heads = options.kv_heads * random.pick(1, 3);
  const DType types[] = {DType::kF32, DType::kBF16, DType::kF16};
  options.dtype = types[random.pick(0, 2)];
  std::vector<TinyFamily> families = {{},
                                      tiny_mistral(9),
                                      tiny_qwen2(9, options.layers),
                                      tiny_qwen3(),
                                      tiny_gemma3(9, options.layers),
                                      tiny_biases(),
                                      tiny_olmo2(),
                                      tiny_phi3(9, options.head_dim),
                                      tiny_ministral3(),
                                      tiny_glm4()};
  options.family = families[static_cast<size_t>(number) % families.size()];
  return options;
}

Config random_config(WorkloadRandom& random, const std::string& model) {
  Config config = {.model = model, .device = Config::Device::kCpu};
  config.threads = random.pick(1, 2);
  if (random.one_in(2)) config.dtype = random.one_in(2) ? DType::kF32 : DType::kBF16;
  if (random.one_in(3)) config.weights = Config::Weights::kDummy;
  if (random.one_in(3)) config.kv_dtype = random.one_in(3) ? DType::kBF16 : DType::kI8;
  if (random.one_in(3)) config.quantize = Quantization::kInt8;
  if (random.one_in(2)) config.max_model_len = random.pick(60, 256);
  if (random.one_in(3)) config.kv = Config::Kv::kContiguous;
  config.block_size = random.pick(1, 40);
  config.max_batch_size = random.pick(1, 90);
  if (random.one_in(2)) config.prefill_chunk_size = random.pick(1, 100);
  switch (random.pick(0, 2)) {
    case 0: config.num_blocks = 1 + 300 / config.block_size; break;
    case 1: config.kv_memory = int64_t{8} << 20; break;
    default: break;
  }
  return config;
}

// Computes a step of sequences that each compute `count` tokens after `context` others. It writes
// nothing to the cache, and reads only its first block.
void compute_step(const EngineParts& on, int num_seqs, int context, int count) {
  const int end = context + count, size = on.pool.block_size();
  Batch batch = {.query_starts = {0}, .max_blocks = (end + size - 1) / size, .block_size = size};
  const SamplingParams sampling;
  std::vector<SampleRow> rows;
  for (int s = 0; s < num_seqs; ++s) {
    for (int p = context; p < end; ++p) batch.positions.push_back(p);
    batch.query_starts.push_back(static_cast<int32_t>(batch.positions.size()));
    batch.context_lens.push_back(end);
    batch.logit_tokens.push_back(batch.query_starts.back() - 1);
    rows.push_back({.params = &sampling,
                    .key = static_cast<uint64_t>(s),
                    .position = static_cast<uint32_t>(end),
                    .logits_row = s});
  }
  batch.tokens.assign(batch.positions.size(), 0);
  batch.slot_mapping.assign(batch.positions.size(), -1);
  batch.block_table.assign(static_cast<size_t>(num_seqs) * static_cast<size_t>(batch.max_blocks),
                           0);
  const BatchView view = on.steps.stage(batch);
  const Tensor logits = on.steps.run(
      view, [&] { return forward(on.spec, on.weights, on.cache, view, on.steps, on.arithmetic); });
  std::vector<DrawnToken> tokens(rows.size());
  on.steps.collect(on.steps.sample(logits, rows), tokens);
}

}  // namespace

TEST_CASE("a run allocates what its plan says, to the byte") {
  WorkloadRandom random(190);
  int num_copied = 0;
  for (int number = 0; number < 30; ++number) {
    CAPTURE(number);
    const TinyModel files(random_model(random, number));
    const Config config = random_config(random, files.dir());
    LoadedModel model = load_model({config}, no_clock);
    const RunPlan& plan = model.plan.runs.front();
    const int64_t copied = model.plan.weight_bytes().copied;
    const int64_t planned = copied + plan.memory.kv_bytes + plan.memory.activation_bytes;
    num_copied += copied > 0;
    CHECK(model.plan.weight_bytes().total() == plan.memory.weight_bytes);
    CHECK(model.plan.ops->memory().held_bytes() == planned);
    CHECK(step_bytes(model.plan.planned(), plan.bounds).total() == plan.memory.activation_bytes);
    std::vector<Request> requests = requests_of(std::min(40, model.plan.opened.spec.vocab));
    std::erase_if(requests, [&](const Request& request) {
      return std::ssize(request.prompt) + 10 > plan.memory.num_positions();
    });
    CHECK(answer_all(model, plan, requests).size() == requests.size());
    CHECK(model.plan.ops->memory().held_bytes() == planned);  // whatever the run does
  }
  CHECK(num_copied > 10);
}

TEST_CASE("a cache takes no more than --kv-memory, and has as many blocks as fit into it") {
  WorkloadRandom random(192);
  int num_refused = 0;
  for (int number = 0; number < 60; ++number) {
    CAPTURE(number);
    const TinyModel files(random_model(random, number));
    Config config = random_config(random, files.dir());
    config.kv = Config::Kv::kPaged;
    const int64_t asked = random.pick(1 << 12, random.one_in(2) ? 1 << 19 : 1 << 23);
    const auto plan = [&](std::optional<int64_t> num_blocks) {
      config.num_blocks = num_blocks;
      config.kv_memory.reset();
      if (!num_blocks) config.kv_memory = asked;
      return plan_model({config}, no_clock).runs.front().memory;
    };
    if (plan(1).kv_bytes > asked) {
      ++num_refused;
      CHECK_THROWS_WITH_AS(plan({}), doctest::Contains("--kv-memory"), Error);
      continue;
    }
    const MemoryPlan planned = plan({});
    CHECK(planned.kv_bytes <= asked);
    CHECK(plan(planned.num_blocks + 1).kv_bytes > asked);
  }
  CHECK(num_refused > 0);
  CHECK(num_refused < 40);
}

TEST_CASE("the largest steps of a run take no more memory than planned") {
  WorkloadRandom random(191);
  for (int number = 0; number < 15; ++number) {
    CAPTURE(number);
    const TinyModel files(random_model(random, number));
    LoadedModel model = load_model({random_config(random, files.dir())}, no_clock);
    const RunPlan& plan = model.plan.runs.front();
    const int64_t held = model.plan.ops->memory().held_bytes();
    Run run(model, plan);
    const EngineParts parts = run.parts(no_clock);
    const SchedulerLimits& limits = plan.limits;
    const int longest = limits.max_model_len;
    const int chunk = std::min(longest - 1, limits.max_step_tokens);
    compute_step(parts, limits.max_running, longest - 1, 1);
    compute_step(parts, limits.max_step_tokens / chunk, 0, chunk);
    compute_step(parts, 1, longest - chunk, chunk);
    CHECK(model.plan.ops->memory().held_bytes() == held);
  }
}

TEST_CASE("a run that does not fit is refused before its memory is taken") {
  const TinyModel files;
  Config config = {.model = files.dir(), .device = Config::Device::kCpu};
  config.num_blocks = int64_t{1} << 27;
  config.block_size = 1;
  config.max_batch_size = 1 << 20;
  CHECK_THROWS_WITH_AS(plan_model({config}, no_clock), doctest::Contains("--num-blocks"), Error);
  config.num_blocks = 16;
  config.max_batch_size = 8;
  const ModelPlan model = plan_model({config}, no_clock);
  CHECK(model.runs.front().memory.num_blocks == 16);
  CHECK(model.ops->memory().held_bytes() == 0);
}

TEST_CASE("what the host holds beside the plan counts for every block of the cache") {
  MemoryDemand d = {.available_bytes = 1 << 30,
                    .kv_bytes_per_token = 100,
                    .block_size = 10,
                    .max_sequences = 1 << 20,
                    .max_model_len = 1 << 20};
  const int64_t alone = plan_memory(d).num_blocks;
  CHECK(alone == (1 << 30) / 1000);
  d.beside_bytes = 1 << 29;
  CHECK(plan_memory(d).num_blocks == alone / 2);
  d.beside_bytes_per_token = 100;
  const MemoryPlan plan = plan_memory(d);
  CHECK(plan.num_blocks == alone / 4);
  CHECK(plan.beside_bytes == (1 << 29) + plan.num_blocks * 1000);
  // Of a cache that rounding makes larger fewer blocks fit.
  d.kv_bytes = [](int64_t positions) { return positions * 100 + (100 << 20); };
  CHECK(plan_memory(d).total_bytes() <= 1 << 30);
  CHECK(plan_memory(d).total_bytes() > (1 << 30) - 2000);
  d.num_blocks = plan.num_blocks;
  CHECK_THROWS_WITH_AS(plan_memory(d), doctest::Contains("read ahead"), Error);
}

}  // namespace pagedinfer
