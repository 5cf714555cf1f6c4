// LoRA adapters of models with experts: what is merged, and what is refused by its name.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
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
                                       const std::vector<AdapterTensor>& tensors) {
  const OpenedModel model = open_model(model_dir, WeightSource::kDummy);
  const TempDir dir;
  write_adapter(dir.path(), fmt::format(R"({{"peft_type": "LORA", "r": 2, {}}})", targets),
                tensors);
  Problems problems;
  const Adapter adapter(dir.path(), adapter_targets(model.spec, model.names, model.known_names),
                        &problems);
  return problems.all();
}
std::vector<std::string> problems_with(const std::string& model_dir, const std::string& targets,
                                       const Modules& modules) {
  return problems_with(model_dir, targets, tensors_of_modules(modules));
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

TEST_CASE("a parameter that is no matrix of the model's is refused by its name") {
  const TempDir dir;
  expert_files(dir, "Qwen3MoeForCausalLM", kAdaptedExperts);
  check_only_problem(
      problems_with(dir.path(),
                    R"("target_parameters": ["q_proj.weight", "experts.gate_up_proj_bias"])",
                    {{"model.layers.0.self_attn.q_proj", 24, 24},
                     {"model.layers.1.self_attn.q_proj", 24, 24}}),
      "adapter_config.json: target_parameters: found experts.gate_up_proj_bias");
}

TEST_CASE("stacks of square matrices of old versions of PEFT are refused") {
  const TempDir dir;
  expert_files(dir, "Qwen3MoeForCausalLM",
               R"("num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24)");
  const auto problems = [&](const std::string& version) {
    Modules modules;
    for (const int layer : {0, 1}) {
      modules.emplace_back(fmt::format("model.layers.{}.mlp.experts", layer), 24, 24);
    }
    std::vector<AdapterTensor> tensors = tensors_of_modules(modules);
    for (AdapterTensor& tensor : tensors) {
      tensor.shape[tensor.name.ends_with("A.weight") ? 0 : 1] = 5 * 2;
    }
    return problems_with(
        dir.path(),
        fmt::format(R"("peft_version": "{}", "target_parameters": ["down_proj"])", version),
        tensors);
  };
  CHECK(problems("0.19.1").empty());
  CHECK(problems("0.21.2").empty());
  for (const char* const version : {"0.17.1", "0.18.1", "0.19.0"}) {
    REQUIRE(problems(version).size() == 1);
    CHECK(problems(version).front().find("peft_version: found 0.1") != std::string::npos);
  }
}

TEST_CASE("stacks of an adapter are added to each expert, in both layouts that PEFT has had") {
  constexpr int64_t kRank = 3, kHidden = 24;
  for (const TinyFamily& family : tiny_expert_families(9, 2)) {
    CAPTURE(family.architecture);
    const TinyModel files({.family = family});
    const OpenedModel plain = open_model(files.dir());
    const int64_t experts = plain.spec.experts.count, width = plain.spec.experts.width;
    const std::string& module = plain.names.layers[0].expert_module;
    for (const bool is_turned : {false, true}) {
      CAPTURE(is_turned);
      std::vector<AdapterTensor> tensors;
      std::map<std::string, std::vector<float>> numbers;
      for (const LayerNames& layer : plain.names.layers) {
        if (layer.experts.empty()) continue;
        for (const auto& [end, inputs, outputs] :
             {std::tuple(".base_layer", kHidden, 2 * width), {"", width, kHidden}}) {
          const std::string prefix =
              fmt::format("base_model.model.{}{}.lora_", layer.expert_module, end);
          const int64_t of_a = is_turned ? outputs : inputs, of_b = is_turned ? inputs : outputs;
          tensors.push_back({prefix + "A.weight", {experts * kRank, of_a}});
          tensors.push_back({prefix + "B.weight", {of_b, experts * kRank}});
          for (size_t i = tensors.size() - 2; i < tensors.size(); ++i) {
            std::vector<float>& of = numbers[tensors[i].name];
            const int64_t size = tensors[i].shape[0] * tensors[i].shape[1];
            of.resize(static_cast<size_t>(size));
            fill_dummy(tensors[i].name, {0.0f, tensors[i].amplitude},
                       {of.data(), DType::kF32, 1, size, size});
          }
        }
      }
      const TempDir lora;
      write_adapter(lora.path(), R"({"peft_type": "LORA", "r": 3, "lora_alpha": 6,
          "target_parameters": ["experts.gate_up_proj", "mlp.experts.down_proj"]})",
                    tensors);
      OpenedModel tuned = open_model(files.dir());
      open_adapter(lora.path(), tuned);
      const auto ops = make_cpu_ops({.compute = DType::kF32});
      const LayerWeights before = load_weights(plain, DType::kF32, ops->memory()).layers[0];
      const LayerWeights after = load_weights(tuned, DType::kF32, ops->memory()).layers[0];
      // Row `row` of the stack's matrix of expert e.
      const auto num_wrong = [&](const Tensor& old, const Tensor& found, int64_t e, const char* end,
                                 int64_t first, int64_t step, int64_t outputs) {
        const std::string prefix = fmt::format("base_model.model.{}{}.lora_", module, end);
        const std::vector<float>&a = numbers[prefix + "A.weight"],
              &b = numbers[prefix + "B.weight"];
        int wrong = 0;
        for (int64_t i = 0; i < old.rows; ++i) {
          const int64_t row = first + i * step;
          for (int64_t c = 0; c < old.cols; ++c) {
            float sum = 0.0f;
            for (int64_t k = 0; k < kRank; ++k) {
              const int64_t of_a =
                  (e * kRank + k) * (is_turned ? outputs : old.cols) + (is_turned ? row : c);
              const int64_t of_b = (is_turned ? c : row) * experts * kRank + k * experts + e;
              sum += b[static_cast<size_t>(of_b)] * a[static_cast<size_t>(of_a)];
            }
            wrong += found.row<float>(i)[c] != old.row<float>(i)[c] + sum * 2.0f;
          }
        }
        return wrong;
      };
      const bool alternate = plain.names.expert_storage == ExpertStorage::kInterleavedColumns;
      for (int64_t e = 0; e < experts; ++e) {
        CAPTURE(e);
        const Expert &old = before.experts[static_cast<size_t>(e)],
                     &found = after.experts[static_cast<size_t>(e)];
        const int64_t step = alternate ? 2 : 1;
        CHECK(num_wrong(old.gate, found.gate, e, ".base_layer", 0, step, 2 * width) == 0);
        CHECK(num_wrong(old.up, found.up, e, ".base_layer", alternate ? 1 : width, step,
                        2 * width) == 0);
        CHECK(num_wrong(old.down, found.down, e, "", 0, 1, kHidden) == 0);
      }
    }
  }
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
