// LoRA adapters of models with experts: what is merged, and what is refused by its name.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.h"
#include "model/inspect.h"
#include "model/model.h"
#include "model/weights.h"
#include "tests/support/model_runner.h"
#include "tests/support/support.h"
#include "tests/support/tiny_adapter.h"
#include "tests/support/tiny_model.h"

using namespace pagedinfer;

namespace {

std::string expert_files(const TempDir& dir, const std::string& architecture,
                         const std::string& fields) {
  write_file(dir / "config.json",
             fmt::format(R"({{"architectures": ["{}"], "hidden_size": 24, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40,
      "vocab_size": 61, {}}})",
                         architecture, fields));
  return dir.path();
}

// Of a LoRA adapter of rank 2 on these modules, given with their inputs and outputs.
using Modules = std::vector<std::tuple<std::string, int64_t, int64_t>>;
std::vector<AdapterTensor> tensors_of_modules(const Modules& modules) {
  std::vector<AdapterTensor> tensors;
  for (const auto& [module, inputs, outputs] : modules) {
    const std::string prefix = fmt::format("base_model.model.{}.lora_", module);
    tensors.push_back({prefix + "A.weight", {2, inputs}});
    tensors.push_back({prefix + "B.weight", {outputs, 2}});
  }
  return tensors;
}

// All that is said of an adapter for a model with made-up weights.
std::vector<std::string> problems_with(const std::string& model_dir, const std::string& targets,
                                       const Modules& modules) {
  const OpenedModel model = open_model(model_dir, WeightSource::kDummy);
  const TempDir dir;
  write_adapter(dir.path(), fmt::format(R"({{"peft_type": "LORA", "r": 2, {}}})", targets),
                tensors_of_modules(modules));
  Problems problems;
  const Adapter adapter(dir.path(), adapter_targets(model.spec, model.names, model.known_names),
                        &problems);
  return problems.all();
}

void check_only_problem(const std::vector<std::string>& problems, const std::string& part) {
  CAPTURE(problems);
  REQUIRE(problems.size() == 1);
  CAPTURE(part);
  CHECK(problems.front().find(part) != std::string::npos);
  CHECK(problems.front().find("; merge the adapter with merge_and_unload") != std::string::npos);
}

// Numbers of the matrix `name` that are not their sums with the update of the adapter, if it has
// one. Its scale is 2.
int num_wrong_sums(const Adapter& adapter, const std::string& name, const Tensor& before,
                   const Tensor& after) {
  const bool is_changed = adapter.changes(name);
  const LowRank update = is_changed ? adapter.update_of(name, 0, before.rows) : LowRank();
  int num_wrong = 0;
  for (int64_t i = 0; i < before.rows; ++i) {
    for (int64_t c = 0; c < before.cols; ++c) {
      float sum = 0.0f;
      for (int64_t k = 0; k < (is_changed ? update.a.rows : 0); ++k) {
        sum += update.b.row<float>(i)[k] * update.a.row<float>(k)[c];
      }
      num_wrong += after.row<float>(i)[c] != before.row<float>(i)[c] + sum * 2.0f;
    }
  }
  return num_wrong;
}

constexpr const char* kAdaptedExperts =
    R"("num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 9)";

}  // namespace

TEST_CASE("an adapter of some experts changes the matrices that it names, and no others") {
  const TinyModel files({.family = tiny_expert_families(9, 2)[0]});
  const TinyAdapterOptions options = {.targets = {"experts.3.down_proj", "experts.5.up_proj"}};
  const TempDir lora;
  write_adapter_for(files.dir(), lora.path(), options);
  const OpenedModel plain = open_model(files.dir());
  OpenedModel tuned = open_model(files.dir());
  open_adapter(lora.path(), tuned);
  CHECK(tuned.adapter->num_matrices() == 2);  // layer 1 has no experts
  const auto ops = make_cpu_ops({.compute = DType::kF32});
  const Weights before = load_weights(plain, DType::kF32, ops->memory());
  const Weights after = load_weights(tuned, DType::kF32, ops->memory());
  const auto check_matrix = [&](const Tensor& old, const Tensor& found, const std::string& name) {
    CAPTURE(name);
    CHECK(num_wrong_sums(*tuned.adapter, name, old, found) == 0);
  };
  const LayerNames& names = tuned.names.layers[0];
  REQUIRE(names.experts.size() == 7);
  for (size_t e = 0; e < names.experts.size(); ++e) {
    const Expert &old = before.layers[0].experts[e], &found = after.layers[0].experts[e];
    check_matrix(old.gate, found.gate, names.experts[e].gate);
    check_matrix(old.up, found.up, names.experts[e].up);
    check_matrix(old.down, found.down, names.experts[e].down);
  }
}

TEST_CASE("an adapter's routers stay float32, and all-linear does not mean them") {
  const std::string dir = source_dir() + "/tests/data/quantized/gptq-4-order-experts";
  const TempDir lora;
  const TinyAdapterOptions options = {.targets = {"mlp.gate", "shared_expert_gate"}};
  write_adapter_for(dir, lora.path(), options);
  const OpenedModel plain = open_model(dir);
  OpenedModel tuned = open_model(dir);
  open_adapter(lora.path(), tuned);
  CHECK(tuned.adapter->num_matrices() == 4);
  const auto ops = make_cpu_ops({.compute = DType::kBF16});
  const auto layer_of = [&](const OpenedModel& model) {
    return load_weights(model, DType::kBF16, ops->memory(), Quantization::kInt4).layers[1];
  };
  const LayerWeights before = layer_of(plain), after = layer_of(tuned);
  const LayerNames& names = tuned.names.layers[1];
  for (const auto& [name, old, found] :
       {std::tuple(names.router, before.router, after.router),
        {names.shared_gate, before.shared_gate, after.shared_gate}}) {
    CAPTURE(name);
    CHECK(found.dtype == DType::kF32);
    CHECK(num_wrong_sums(*tuned.adapter, name, old, found) == 0);
  }

  const TempDir qwen3;
  expert_files(qwen3, "Qwen3MoeForCausalLM", kAdaptedExperts);
  Modules all;
  for (int layer = 0; layer < 2; ++layer) {
    for (const char* const name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      all.emplace_back(fmt::format("model.layers.{}.self_attn.{}", layer, name), 24,
                       name[0] == 'k' || name[0] == 'v' ? 12 : 24);
    }
    for (int expert = 0; expert < 5; ++expert) {
      const std::string parent = fmt::format("model.layers.{}.mlp.experts.{}.", layer, expert);
      all.emplace_back(parent + "gate_proj", 24, 9);
      all.emplace_back(parent + "up_proj", 24, 9);
      all.emplace_back(parent + "down_proj", 9, 24);
    }
  }
  CHECK(problems_with(qwen3.path(), R"("target_modules": "all-linear")", all).empty());
}

TEST_CASE("an adapter that changes experts of one tensor is refused by their names") {
  const TempDir granite, gpt_oss;
  const std::string experts = R"("num_local_experts": 4, "num_experts_per_tok": 2)";
  expert_files(granite, "GraniteMoeForCausalLM", experts);
  check_only_problem(
      problems_with(granite.path(), R"("target_modules": ["output_linear"])",
                    {{"model.layers.1.block_sparse_moe.output_linear", 40, 24}}),
      "has 2 tensors of model.layers.1.block_sparse_moe.output_linear, which an adapter");
  // As for experts that are modules.
  expert_files(gpt_oss, "GptOssForCausalLM",
               experts + R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4})");
  check_only_problem(
      problems_with(gpt_oss.path(), R"("target_modules": ["gate_proj", "down_proj"])",
                    {{"model.layers.0.mlp.experts.0.gate_proj", 24, 40},
                     {"model.layers.0.mlp.experts.3.down_proj", 40, 24}}),
      "has 4 tensors of model.layers.0.mlp.experts, which an adapter cannot change");
}

TEST_CASE(
    "an adapter of parameters, as PEFT saves it of stacked experts, is refused by the field") {
  const TempDir dir;
  expert_files(dir, "Qwen3MoeForCausalLM", kAdaptedExperts);
  const std::string experts = "model.layers.0.mlp.experts.";
  check_only_problem(
      problems_with(dir.path(),
                    R"("target_modules": ["q_proj"], "rank_pattern": {".*\\.gate_up_proj": 4},
                       "target_parameters": ["gate_up_proj", "gate.weight", "down_proj"])",
                    {{"model.layers.0.self_attn.q_proj", 24, 24},
                     {"model.layers.1.self_attn.q_proj", 24, 24},
                     {experts + "base_layer", 24, 18},
                     {"model.layers.0.mlp.experts", 9, 24}}),
      R"(adapter_config.json: target_parameters: found ["gate_up_proj","gate.weight","down_proj"])");
}

TEST_CASE("an adapter of gate or up alone leaves both of an expert's in one type") {
  const std::string dir = source_dir() + "/tests/data/quantized/gptq-4-experts";
  for (const char* const target : {"experts.1.gate_proj", "experts.1.up_proj"}) {
    CAPTURE(target);
    const TempDir lora;
    write_adapter_for(dir, lora.path(), {.targets = {target}});
    OpenedModel model = open_model(dir);
    open_adapter(lora.path(), model);
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      const auto ops = make_cpu_ops({.compute = compute});
      const Weights weights = load_weights(model, compute, ops->memory(), Quantization::kCodes);
      // The plan counts them as what they become; it does not count the ropes.
      const int64_t planned =
          weight_bytes(model, compute, ops->memory(), Quantization::kCodes).copied;
      CHECK(ops->memory().held_bytes() >= planned);
      CHECK(ops->memory().held_bytes() <= planned + weights.ropes.front().used.bytes());
      const std::vector<Expert>& experts = weights.layers[0].experts;
      CHECK(experts[0].gate.dtype == DType::kI4);
      CHECK(experts[0].up.dtype == DType::kI4);
      CHECK(experts[1].gate.dtype == compute);
      CHECK(experts[1].up.dtype == compute);
      CHECK(experts[1].down.dtype == DType::kI4);
    }
  }
}
