// Several configurations over one model in one process, one after the other.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/error.h"
#include "load/run.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cuda/cuda_ops.h"
#include "tests/support/model_runs.h"
#include "tests/support/tiny_model.h"

namespace pagedinfer {
namespace {

bool is_present(const Tensor& tensor) {
  constexpr int64_t kPage = 4096;
  std::vector<unsigned char> pages(static_cast<size_t>((tensor.bytes() + kPage - 1) / kPage));
  REQUIRE(mincore(tensor.data, static_cast<size_t>(tensor.bytes()), pages.data()) == 0);
  return std::ranges::all_of(pages, [](unsigned char page) { return page & 1; });
}

double no_clock() { return 0; }

}  // namespace

TEST_CASE("configurations run over one model, each answers as it does alone") {
  const TinyModel files({.max_positions = 256, .dtype = DType::kBF16});
  const std::vector<Config> configs = configs_of_runs(files.dir(), Config::Device::kCpu);
  const std::vector<Request> requests = requests_of(61);
  LoadedModel shared = load_model(configs, no_clock);
  REQUIRE(shared.plan.runs.size() == configs.size());
  for (size_t i = 0; i < configs.size(); ++i) {
    INFO("configuration " << i);
    LoadedModel alone = load_model({configs[i]}, no_clock);
    const auto expected = answer_all(alone, alone.plan.runs.front(), requests);
    CHECK(expected.size() == requests.size());
    CHECK(answer_all(shared, shared.plan.runs[i], requests) == expected);
  }
}

TEST_CASE("a warm-up changes neither the cache nor an answer") {
  const TinyModel files({.max_positions = 256, .dtype = DType::kBF16});
  const std::vector<Config> configs = configs_of_runs(files.dir(), Config::Device::kCpu);
  const std::vector<Request> requests = requests_of(61);
  LoadedModel model = load_model(configs, no_clock);
  for (const RunPlan& plan : model.plan.runs) {
    const auto expected = answer_all(model, plan, requests);
    Run run(model, plan);
    const EngineParts parts = run.parts(no_clock);
    const auto bytes_of_cache = [&] {
      std::vector<char> bytes;
      for (const KvLayer& layer : parts.cache) {
        for (const Tensor& part : {layer.k, layer.v}) {
          const auto* const data = static_cast<const char*>(part.data);
          bytes.insert(bytes.end(), data, data + part.bytes());
        }
      }
      return bytes;
    };
    const std::vector<char> before = bytes_of_cache();
    run.warm_up();
    CHECK(bytes_of_cache() == before);
    CHECK(answer_all(model, plan, requests) == expected);
  }
}

TEST_CASE("each run over a model has the frequencies of rope for its length") {
  const TinyModel files({.max_positions = 256, .family = tiny_phi3(9)});  // trained for 64
  std::vector<Config> configs(3, {.model = files.dir(), .device = Config::Device::kCpu});
  configs[0].max_model_len = 64;
  configs[1].max_model_len = 65;
  configs[2].max_model_len = 64;
  LoadedModel shared = load_model(configs, no_clock);
  for (const RunPlan& plan : shared.plan.runs) {
    const Run run(shared, plan);
    const RopeWeights& rope = shared.weights.ropes.front();
    const bool is_long = plan.limits.max_model_len > 64;
    CHECK(rope.used.data == (is_long ? rope.long_runs : rope.short_runs).data);
  }
  LoadedModel usual =
      load_model({{.model = files.dir(), .device = Config::Device::kCpu}}, no_clock);
  const Run run(usual, usual.plan.runs.front());
  CHECK(usual.weights.ropes.front().used.data == usual.weights.ropes.front().long_runs.data);
}

TEST_CASE("a later run over a model takes no memory and finds its cache present") {
  const TinyModel files({.max_positions = 256, .dtype = DType::kBF16});
  const std::vector<Config> configs = configs_of_runs(files.dir(), Config::Device::kCpu);
  const std::vector<Request> requests = requests_of(61);
  LoadedModel model = load_model(configs, no_clock);
  const int64_t held = model.plan.ops->memory().held_bytes();
  CHECK(held > 0);
  for (const RunPlan& plan : model.plan.runs) {
    bool is_first_step = true;
    answer_all(model, plan, requests, [&](const EngineParts& parts) {
      if (!std::exchange(is_first_step, false)) return;
      for (const KvLayer& layer : parts.cache) {
        CHECK(is_present(layer.k));
        CHECK(is_present(layer.v));
      }
    });
    CHECK(model.plan.ops->memory().held_bytes() == held);
  }
}

TEST_CASE("a step has room for all samples of a prompt, however few sequences run at once") {
  const TinyModel files({.max_positions = 256});
  for (const int max_batch_size : {1, kMaxSamples, 100}) {
    Config config = {.model = files.dir(), .device = Config::Device::kCpu, .num_blocks = 16};
    config.max_batch_size = max_batch_size;
    const LoadedModel model = load_model({config}, no_clock);
    const RunPlan& plan = model.plan.runs.front();
    CHECK(plan.limits.max_running == max_batch_size);
    CHECK(plan.bounds.sequences == std::max(max_batch_size, kMaxSamples));
  }
}

TEST_CASE("the plan of a run alone is that run's, and together they share a step that holds each") {
  const TinyModel files({.max_positions = 256, .dtype = DType::kBF16});
  const std::vector<Config> configs = configs_of_runs(files.dir(), Config::Device::kCpu);
  const LoadedModel shared = load_model(configs, no_clock);
  const int64_t common = shared.plan.runs.front().memory.activation_bytes;
  for (size_t i = 0; i < configs.size(); ++i) {
    const LoadedModel alone = load_model({configs[i]}, no_clock);
    const MemoryPlan &own = alone.plan.runs.front().memory, &among = shared.plan.runs[i].memory;
    CHECK(among.num_blocks == own.num_blocks);
    CHECK(among.block_size == own.block_size);
    CHECK(among.kv_bytes == own.kv_bytes);
    CHECK(among.weight_bytes == own.weight_bytes);
    CHECK(among.activation_bytes == common);
    CHECK(own.activation_bytes <= common);
  }
}

TEST_CASE("a cache has the type that is asked for, a GPU's that of computation or int8") {
  const TinyModel files({.max_positions = 256, .dtype = DType::kF16});
  Config config = {.model = files.dir(), .device = Config::Device::kCpu, .num_blocks = 16};
  const LoadedModel model = load_model({config}, no_clock);
  CHECK(model.plan.options.compute == DType::kF32);
  CHECK(model.plan.runs.front().kv_type == DType::kF16);  // as the files
  config.kv_dtype = DType::kI8;
  CHECK(plan_model({config}, no_clock).runs.front().kv_type == DType::kI8);

  const auto plan_on_gpu = [&](DType computation) {
    const PlannedModel planned = {.spec = model.plan.opened.spec,
                                  .backend = kCudaInfo,
                                  .memory = model.plan.ops->memory(),
                                  .kv_type = computation};
    return plan_runs({config}, planned, [](const Config&) { return int64_t{1} << 30; }).front();
  };
  CHECK(plan_on_gpu(DType::kBF16).kv_type == DType::kI8);
  config.kv_dtype = DType::kF16;
  CHECK_THROWS_WITH_AS(plan_on_gpu(DType::kBF16),
                       "--kv-dtype float16: the cache of the GPU has the type of computation, "
                       "bfloat16, or int8; leave it out",
                       Error);
  config.kv_dtype = DType::kBF16;
  CHECK(plan_on_gpu(DType::kBF16).kv_type == DType::kBF16);
}

TEST_CASE("a model of experts that does not fit is refused with the weights that would") {
  const TempDir dir;
  write_file(dir / "config.json", R"({"architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 256,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1,
      "intermediate_size": 64, "vocab_size": 61, "max_position_embeddings": 64, "num_experts": 64,
      "num_experts_per_tok": 2, "moe_intermediate_size": 128, "dtype": "bfloat16"})");
  Config config = {
      .model = dir.path(), .weights = Config::Weights::kDummy, .device = Config::Device::kCpu};
  config.max_batch_size = 1;
  config.prefill_chunk_size = 1;
  const ModelPlan model = plan_model({config}, no_clock);
  const auto outcome = [&](double available) -> std::string {
    try {
      (void)plan_runs({config}, model.planned(),
                      [&](const Config&) { return static_cast<int64_t>(available); });
      return "fits";
    } catch (const Error& error) {
      const std::string said = error.what();
      const auto names = [&](const char* setting) {
        return said.find(fmt::format("with {}, with which the weights take", setting)) !=
               std::string::npos;
      };
      return fmt::format("{}{}", names("--quantize int8") ? "int8 " : "",
                         names("--quantize int4") ? "int4" : "");
    }
  };
  std::vector<std::string> outcomes;  // with more and more memory
  for (double available = 1 << 24; available < 1e9; available *= 1.01) {
    std::string found = outcome(available);
    if (outcomes.empty() || outcomes.back() != found) outcomes.push_back(std::move(found));
  }
  CHECK(outcomes == std::vector<std::string>{"", "int4", "int8 int4", "fits"});
}

TEST_CASE("a float16 checkpoint on a CPU is told that bfloat16 is faster") {
  const TinyModel files({.max_positions = 256, .dtype = DType::kF16});
  Config config = {.model = files.dir(), .device = Config::Device::kCpu, .num_blocks = 16};
  const auto notes = [&] { return plan_model({config}, no_clock).notes; };
  CHECK(notes() == std::vector<std::string>{
                       "the CPU computes float16 as float32; --dtype bfloat16 runs 1.3 to 2 times "
                       "as fast, with AMX faster still"});
  config.quantize = Quantization::kInt8;
  CHECK(notes().empty());
  config.quantize = Quantization::kNone;
  config.dtype = DType::kBF16;
  CHECK(notes().empty());
  config.dtype = DType::kF32;
  CHECK(notes().empty());
}

TEST_CASE("weights that change while they are loaded are refused, and copies do not change later") {
  const auto overwrite = [](const std::string& dir) {
    std::fstream file(dir + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-40, std::ios::end);
    file << std::string(40, 1);
  };
  for (const auto packing : {Config::Packing::kOn, Config::Packing::kOff}) {
    const TinyModel files({.dtype = DType::kBF16, .tied = true});
    const Config config = {
        .model = files.dir(), .pack_weights = packing, .device = Config::Device::kCpu};
    ModelPlan plan = plan_model({config}, no_clock);
    overwrite(files.dir());
    CHECK_THROWS_AS(load_model(std::move(plan)), Error);

    LoadedModel loaded = load_model({config}, no_clock);
    overwrite(files.dir());
    loaded.check_files();  // the same bytes again
    std::filesystem::resize_file(files.dir() + "/model.safetensors", 5000);
    if (packing == Config::Packing::kOn) {
      loaded.check_files();
    } else {
      CHECK_THROWS_AS(loaded.check_files(), Error);
    }
  }
}

TEST_CASE("the bounds of several runs hold the longest block table of each") {
  const TinyModel files({.max_positions = 256});
  const std::vector<Config> configs = configs_of_runs(files.dir(), Config::Device::kCpu);
  const LoadedModel model = load_model(configs, no_clock);
  const auto max_blocks = [](const StepBounds& bounds) {
    return (bounds.context + bounds.block_size - 1) / bounds.block_size;
  };
  const StepBounds all = bounds_of_all(model.plan.runs);
  for (const RunPlan& plan : model.plan.runs) CHECK(max_blocks(all) >= max_blocks(plan.bounds));
}

}  // namespace pagedinfer
