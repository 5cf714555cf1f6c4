// Models with experts: what config.json says of them, and how a checkpoint may have their tensors.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "io/safetensors.h"
#include "model/inspect.h"
#include "model/model.h"
#include "model/weights.h"
#include "tests/support/model_runner.h"
#include "tests/support/support.h"
#include "tests/support/tiny_model.h"

using namespace pagedinfer;

namespace {

constexpr const char *kQwen2Moe = "Qwen2MoeForCausalLM", *kQwen3Moe = "Qwen3MoeForCausalLM";
constexpr const char* kFewExperts =
    R"(, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 9)";

std::string expert_config(const std::string& architecture, const std::string& fields) {
  return fmt::format(R"({{"architectures": ["{}"], "hidden_size": 24, "num_hidden_layers": 6,
      "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40,
      "vocab_size": 61{}}})",
                     architecture, fields);
}

OpenedModel open_experts(const std::string& architecture, const std::string& fields) {
  const TempDir dir;
  write_file(dir / "config.json", expert_config(architecture, fields));
  return open_model(dir.path(), WeightSource::kDummy);
}

std::vector<int> layers_with_experts(const ModelSpec& spec) {
  std::vector<int> layers;
  for (int i = 0; i < std::ssize(spec.layers); ++i) {
    if (spec.layers[static_cast<size_t>(i)].has_experts) layers.push_back(i);
  }
  return layers;
}

// A safetensors file of float32 matrices.
struct ExpertTensor {
  std::string shape, bytes;
};
std::string file_of(const std::map<std::string, ExpertTensor>& tensors) {
  std::string header = "{", data;
  for (const auto& [name, tensor] : tensors) {
    header += fmt::format(R"({}"{}": {{"dtype": "F32", "shape": [{}], "data_offsets": [{}, {}]}})",
                          header.size() == 1 ? "" : ", ", name, tensor.shape, data.size(),
                          data.size() + tensor.bytes.size());
    data += tensor.bytes;
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

// The same checkpoint with the experts of a layer in two tensors.
std::map<std::string, ExpertTensor> stacked_tensors(const OpenedModel& model) {
  std::map<std::string, ExpertTensor> tensors;
  const auto bytes_of = [&](const std::string& name) {
    const auto bytes = model.checkpoint.stored(name).bytes;
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  for (const std::string& name : model.checkpoint.names()) {
    if (name.find(".experts.") != std::string::npos) continue;
    tensors[name] = {fmt::format("{}", fmt::join(model.checkpoint.stored(name).shape, ", ")),
                     bytes_of(name)};
  }
  const ModelSpec& spec = model.spec;
  for (size_t l = 0; l < spec.layers.size(); ++l) {
    if (!spec.layers[l].has_experts) continue;
    const std::string experts = fmt::format("model.layers.{}.mlp.experts.", l);
    ExpertTensor& gate_up = tensors[experts + "gate_up_proj"];
    ExpertTensor& down = tensors[experts + "down_proj"];
    gate_up.shape =
        fmt::format("{}, {}, {}", spec.experts.count, 2 * spec.experts.width, spec.hidden);
    down.shape = fmt::format("{}, {}, {}", spec.experts.count, spec.hidden, spec.experts.width);
    for (const ExpertNames& names : model.names.layers[l].experts) {
      gate_up.bytes += bytes_of(names.gate) + bytes_of(names.up);
      down.bytes += bytes_of(names.down);
    }
  }
  return tensors;
}

std::vector<float> logits_of_model(const std::string& dir, DType compute, Quantization quantize) {
  ModelRunner runner(dir, compute, available_isas().back(), 2, WeightSource::kFiles, {}, quantize);
  runner.start(9);
  return runner.run({1, 5, 2, 40, 8, 8, 3, 30, 11}, {8})[0];
}

}  // namespace

TEST_CASE("layers have experts as decoder_sparse_step and mlp_only_layers say") {
  const auto layers = [](const std::string& fields) {
    return layers_with_experts(open_experts(kQwen3Moe, kFewExperts + fields).spec);
  };
  CHECK(layers("") == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK(layers(R"(, "decoder_sparse_step": 2)") == std::vector<int>{1, 3, 5});
  CHECK(layers(R"(, "mlp_only_layers": [0, 4])") == std::vector<int>{1, 2, 3, 5});
  CHECK(layers(R"(, "decoder_sparse_step": 3, "mlp_only_layers": [2])") == std::vector<int>{5});
  CHECK(layers(R"(, "mlp_only_layers": null)").size() == 6);
}

TEST_CASE("the number of experts may have either name that transformers reads it by") {
  const auto count = [](const std::string& fields) {
    return open_experts(kQwen3Moe,
                        R"(, "num_experts_per_tok": 2, "moe_intermediate_size": 9)" + fields)
        .spec.experts.count;
  };
  CHECK(count(R"(, "num_local_experts": 7)") == 7);
  CHECK(count(R"(, "num_experts": 5, "num_local_experts": 7)") == 5);
  CHECK(count("") == 128);
  CHECK(open_experts("OlmoeForCausalLM", R"(, "num_local_experts": 9)").spec.experts.count == 9);
  CHECK(open_experts("MixtralForCausalLM", R"(, "num_experts": 9)").spec.experts.count == 9);
}

TEST_CASE("families differ in how the weights of experts are normalized") {
  const auto normalizes = [](const char* architecture, const std::string& fields) {
    return open_experts(architecture, kFewExperts + fields).spec.experts.normalizes_chosen;
  };
  for (const char* architecture : {kQwen2Moe, kQwen3Moe, "OlmoeForCausalLM"}) {
    CHECK_FALSE(normalizes(architecture, ""));
    CHECK(normalizes(architecture, R"(, "norm_topk_prob": true)"));
  }
  for (const char* architecture : {"MixtralForCausalLM", "GraniteMoeForCausalLM"}) {
    CHECK(normalizes(architecture, ""));
  }
}

TEST_CASE("sizes of experts that cannot be are errors that name the field") {
  const auto refusal = [](const char* architecture, const std::string& fields) {
    try {
      (void)open_experts(architecture, fields);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  CHECK(refusal(kQwen3Moe, R"(, "num_experts": 3, "num_experts_per_tok": 4)")
            .find("num_experts_per_tok: found 4, expected at most the 3 experts") !=
        std::string::npos);
  CHECK(refusal(kQwen3Moe, R"(, "num_experts": 0)").find("num_experts: found 0") !=
        std::string::npos);
  CHECK(refusal("MixtralForCausalLM", R"(, "num_local_experts": "8")").find("num_local_experts") !=
        std::string::npos);
  CHECK(refusal(kQwen3Moe, R"(, "mlp_only_layers": [6])").find("mlp_only_layers") !=
        std::string::npos);
  CHECK(refusal(kQwen3Moe, R"(, "num_experts": 16384, "num_hidden_layers": 48)")
            .find("num_experts: found 16384 in 48 layers") != std::string::npos);
  CHECK(refusal("LlamaForCausalLM", R"(, "num_experts": 4)").find("experts are not supported") !=
        std::string::npos);
  CHECK(refusal("GptOssForCausalLM", "").find("rope_parameters: found nothing") !=
        std::string::npos);
}

TEST_CASE("stacked experts are the same model as experts with a tensor for each matrix") {
  for (const TinyFamily& family : tiny_expert_families(9, 2)) {
    if (family.architecture == "GptOssForCausalLM") continue;  // always stacked
    INFO(family.architecture);
    const TinyModel each({.family = family});
    const TempDir dir;
    write_file(dir / "config.json", read_file(each.dir() + "/config.json"));
    write_file(dir / "model.safetensors", file_of(stacked_tensors(open_model(each.dir()))));
    CHECK(open_model(dir.path()).names.expert_storage == ExpertStorage::kStackedRows);
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      for (const Quantization quantize : {Quantization::kNone, Quantization::kInt8}) {
        CHECK(logits_of_model(dir.path(), compute, quantize) ==
              logits_of_model(each.dir(), compute, quantize));
      }
    }
  }
}

TEST_CASE("a stack of another shape is an error that names it") {
  const TinyModel each({.family = tiny_expert_families(9, 2)[0]});
  auto tensors = stacked_tensors(open_model(each.dir()));
  const TempDir dir;
  write_file(dir / "config.json", read_file(each.dir() + "/config.json"));
  // Turned, and as many rows of other experts.
  for (const char* const shape : {"7, 21, 24", "14, 12, 21", "1, 168, 21"}) {
    tensors["model.layers.0.mlp.experts.down_proj"].shape = shape;
    write_file(dir / "model.safetensors", file_of(tensors));
    const std::string said =
        fmt::format("mlp.experts.down_proj' has shape [{}], expected [7, 24, 21]", shape);
    CHECK_THROWS_WITH_AS((void)logits_of_model(dir.path(), DType::kF32, Quantization::kNone),
                         doctest::Contains(said.c_str()), Error);
  }
}

TEST_CASE("an adapter may change experts that have tensors of their own, and routers") {
  const OpenedModel model = open_experts(kQwen3Moe, kFewExperts);
  const auto targets = adapter_targets(model.spec, model.names, model.known_names);
  REQUIRE(targets.size() == 1);  // no other names for such tensors
  const auto has = [&](std::string_view module) {
    return std::ranges::any_of(targets.front().matrices, [&](const AdapterTarget& target) {
      return target.module.name == module;
    });
  };
  CHECK(has("model.layers.5.self_attn.q_proj"));
  CHECK(has("model.layers.5.mlp.experts.4.down_proj"));
  CHECK(has("model.layers.5.mlp.gate"));

  const OpenedModel stacked = open_experts("GraniteMoeForCausalLM",
                                           R"(, "num_local_experts": 4, "num_experts_per_tok": 2)");
  for (const AdapterTargets& some :
       adapter_targets(stacked.spec, stacked.names, stacked.known_names)) {
    CHECK(std::ranges::none_of(some.matrices, [](const AdapterTarget& target) {
      return target.module.name.find("block_sparse_moe") != std::string::npos &&
             target.module.kind == AdaptedModule::Kind::kLayer;
    }));
  }
}

TEST_CASE("the parameters of a token are those outside of experts and of its own experts") {
  const TempDir dir;
  write_file(dir / "config.json",
             expert_config(kQwen2Moe, std::string(kFewExperts) +
                                          R"(, "shared_expert_intermediate_size": 11,
                                              "decoder_sparse_step": 2)"));
  Problems problems;
  const InspectedModel model = inspect_model(dir.path(), WeightSource::kDummy, problems);
  CHECK(problems.all().empty());
  CHECK(model.parameters.all - model.parameters.active == 3 * (5 - 2) * 3 * 9 * 24);
}
