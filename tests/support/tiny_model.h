// Random tiny checkpoints, as files: config.json and safetensors.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "model/model.h"
#include "model/needed_tensors.h"
#include "tests/support/support.h"

namespace pagedinfer {

// What differs between families. Every other layer has the window, beginning with the first.
struct TinyFamily {
  std::string architecture = "LlamaForCausalLM";
  bool qkv_bias = false, qk_norm = false, sandwich_norm = false;
  float norm_center = 1.0f;
  std::string fields = {};    // more fields of config.json, each after a comma
  bool is_as_needed = false;  // the tensors are those that the model asks for
};

inline TinyFamily tiny_mistral(int window) {  // in every layer
  return {.architecture = "MistralForCausalLM",
          .fields = fmt::format(R"(, "sliding_window": {})", window)};
}
inline std::string tiny_layer_types(int layers) {
  std::string types;
  for (int i = 0; i < layers; ++i) {
    types +=
        fmt::format(R"({}"{}_attention")", i == 0 ? "" : ", ", i % 2 == 0 ? "sliding" : "full");
  }
  return types;
}
inline TinyFamily tiny_ministral(int window, int layers) {
  return {.architecture = "MinistralForCausalLM",
          .fields = fmt::format(R"(, "sliding_window": {}, "layer_types": [{}])", window,
                                tiny_layer_types(layers))};
}
inline TinyFamily tiny_qwen2(int window, int layers) {
  return {.architecture = "Qwen2ForCausalLM",
          .qkv_bias = true,
          .fields = fmt::format(
              R"(, "use_sliding_window": true, "sliding_window": {}, "layer_types": [{}])", window,
              tiny_layer_types(layers))};
}
inline TinyFamily tiny_qwen3() { return {.architecture = "Qwen3ForCausalLM", .qk_norm = true}; }
inline TinyFamily tiny_gemma3(int window, int layers) {
  return {.architecture = "Gemma3ForCausalLM",
          .qk_norm = true,
          .sandwich_norm = true,
          .norm_center = 0.0f,
          .fields = fmt::format(
              R"(, "sliding_window": {}, "layer_types": [{}], "query_pre_attn_scalar": 10,
  "rope_local_base_freq": 100.0)",
              window, tiny_layer_types(layers))};
}

inline TinyFamily tiny_family(const std::string& architecture, const std::string& fields,
                              float norm_center = 1.0f) {
  return {.architecture = architecture,
          .norm_center = norm_center,
          .fields = ", " + fields,
          .is_as_needed = true};
}
inline TinyFamily tiny_biases() {
  return tiny_family("LlamaForCausalLM", R"("attention_bias": true, "mlp_bias": true)");
}
inline TinyFamily tiny_smollm3(int window) {  // in every third layer, beginning with the second
  return tiny_family("SmolLM3ForCausalLM", fmt::format(R"("no_rope_layers": [1, 0, 1, 1, 0, 1],
  "use_sliding_window": true, "sliding_window": {})",
                                                       window));
}
inline TinyFamily tiny_granite(int head_dim) {
  return tiny_family("GraniteForCausalLM", fmt::format(R"("embedding_multiplier": 3.3,
  "attention_multiplier": {}, "residual_multiplier": 0.41, "logits_scaling": 1.7)",
                                                       0.7 / std::sqrt(head_dim)));
}
inline TinyFamily tiny_olmo2() {
  return tiny_family("Olmo2ForCausalLM", R"("model_type": "olmo2")");
}
inline TinyFamily tiny_phi3(int window, int head_dim = 8) {
  std::string factors;
  for (int i = 0; i < (3 * head_dim / 4 + 1) / 2; ++i) {
    factors += fmt::format("{}{}", i == 0 ? "" : ", ", 1.5 + 0.25 * i);
  }
  return tiny_family("Phi3ForCausalLM",
                     fmt::format(R"("partial_rotary_factor": 0.75, "sliding_window": {},
  "original_max_position_embeddings": 64, "rope_scaling": {{"type": "longrope",
  "short_factor": [{}], "long_factor": [{}]}})",
                                 window, factors, factors));
}
inline TinyFamily tiny_gemma2(int window, int layers) {
  return tiny_family("Gemma2ForCausalLM",
                     fmt::format(R"("sliding_window": {}, "layer_types": [{}],
  "query_pre_attn_scalar": 3, "attn_logit_softcapping": 2.5, "final_logit_softcapping": 4.5)",
                                 window, tiny_layer_types(layers)),
                     0.0f);
}
inline TinyFamily tiny_gemma() {
  return tiny_family("GemmaForCausalLM", R"("model_type": "gemma")", 0.0f);
}
inline TinyFamily tiny_olmo3(int window, int layers) {
  return tiny_family("Olmo3ForCausalLM", fmt::format(R"("sliding_window": {}, "layer_types": [{}],
  "rope_parameters": {{"full_attention": {{"rope_type": "yarn", "rope_theta": 700.0, "factor": 4.0,
    "original_max_position_embeddings": 64}},
    "sliding_attention": {{"rope_type": "default", "rope_theta": 300.0}}}})",
                                                     window, tiny_layer_types(layers)));
}
inline TinyFamily tiny_exaone4(int window, int layers) {
  return tiny_family("Exaone4ForCausalLM",
                     fmt::format(R"("sliding_window": {}, "layer_types": [{}])", window,
                                 tiny_layer_types(layers)));
}
inline TinyFamily tiny_ministral3() {
  return tiny_family("Ministral3ForCausalLM", R"("rope_parameters": {"rope_type": "yarn",
    "factor": 8.0, "original_max_position_embeddings": 16, "mscale": 1.0, "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1})");
}
inline TinyFamily tiny_glm4() {
  return tiny_family("Glm4ForCausalLM", R"("partial_rotary_factor": 0.75)");
}
// One of each of these.
inline std::vector<TinyFamily> tiny_newer_families(int window, int layers, int head_dim = 8) {
  return {tiny_biases(),
          tiny_smollm3(window),
          tiny_granite(head_dim),
          tiny_olmo2(),
          tiny_phi3(window, head_dim),
          tiny_gemma2(window, layers),
          tiny_gemma(),
          tiny_olmo3(window, layers),
          tiny_exaone4(window, layers),
          tiny_ministral3(),
          tiny_glm4()};
}

// Families with experts.
inline std::vector<TinyFamily> tiny_expert_families(int window, int layers) {
  return {tiny_family("Qwen3MoeForCausalLM", R"("num_experts": 7, "num_experts_per_tok": 3,
  "moe_intermediate_size": 21, "norm_topk_prob": true, "mlp_only_layers": [1])"),
          tiny_family("Qwen2MoeForCausalLM", R"("num_experts": 5, "num_experts_per_tok": 2,
  "moe_intermediate_size": 19, "shared_expert_intermediate_size": 26)"),
          tiny_family("OlmoeForCausalLM",
                      R"("num_experts": 6, "num_experts_per_tok": 4, "clip_qkv": 0.7)"),
          tiny_family(
              "GptOssForCausalLM",
              fmt::format(R"("num_local_experts": 6, "num_experts_per_tok": 2, "swiglu_limit": 0.8,
  "sliding_window": {}, "layer_types": [{}], "rope_parameters": {{"rope_type": "yarn",
  "factor": 4.0, "original_max_position_embeddings": 64}})",
                          window, tiny_layer_types(layers)))};
}

struct TinyModelOptions {
  uint32_t seed = 1;
  int hidden = 24, layers = 2, heads = 4, kv_heads = 2, head_dim = 8, intermediate = 40;
  int vocab = 61, max_positions = 256, eos_token = 7;
  DType dtype = DType::kF32;
  bool tied = false, sharded = false, llama3_rope = false;
  TinyFamily family = {};
};

// A checkpoint in a temporary directory, which the destructor removes.
class TinyModel {
 public:
  explicit TinyModel(const TinyModelOptions& options = {});

  const std::string& dir() const { return dir_.path(); }

 private:
  struct Stored {
    std::string name, shape, bytes;
  };

  void write_tensors(const std::vector<Stored>& tensors);
  Stored random_tensor(const std::string& name, int rows, int cols);
  std::string encode(float value) const;
  static std::string safetensors(const std::vector<Stored>& tensors, DType dtype);

  TempDir dir_;
  TinyModelOptions options_;
  std::mt19937 random_;
};

inline TinyModel::TinyModel(const TinyModelOptions& o) : options_(o), random_(o.seed) {
  const std::string rope = o.llama3_rope
                               ? R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32})"
                               : "null";
  write_file(
      dir_ / "config.json",
      fmt::format(
          R"({{"architectures": ["{}"], "hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {},
  "num_key_value_heads": {}, "head_dim": {}, "intermediate_size": {}, "vocab_size": {},
  "max_position_embeddings": {}, "eos_token_id": {}, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
  "tie_word_embeddings": {}, "rope_scaling": {}{}}})",
          o.family.architecture, o.hidden, o.layers, o.heads, o.kv_heads, o.head_dim,
          o.intermediate, o.vocab, o.max_positions, o.eos_token, o.tied, rope, o.family.fields));

  const int q_dim = o.heads * o.head_dim, kv_dim = o.kv_heads * o.head_dim;
  std::vector<Stored> tensors;
  if (o.family.is_as_needed) {
    const OpenedModel model = open_model(dir_.path(), WeightSource::kDummy);
    for (const auto& [name, rows, cols, stacked] : needed_tensors(model.spec, model.names)) {
      tensors.push_back(random_tensor(name, static_cast<int>(rows), static_cast<int>(cols)));
    }
    write_tensors(tensors);
    return;
  }
  tensors = {random_tensor("model.embed_tokens.weight", o.vocab, o.hidden),
             random_tensor("model.norm.weight", 1, o.hidden)};
  if (!o.tied) tensors.push_back(random_tensor("lm_head.weight", o.vocab, o.hidden));
  for (int i = 0; i < o.layers; ++i) {
    const auto add = [&](const char* part, int rows, int cols) {
      tensors.push_back(
          random_tensor(fmt::format("model.layers.{}.{}.weight", i, part), rows, cols));
    };
    add("input_layernorm", 1, o.hidden);
    add("self_attn.q_proj", q_dim, o.hidden);
    add("self_attn.k_proj", kv_dim, o.hidden);
    add("self_attn.v_proj", kv_dim, o.hidden);
    add("self_attn.o_proj", o.hidden, q_dim);
    add("post_attention_layernorm", 1, o.hidden);
    if (o.family.sandwich_norm) {
      add("pre_feedforward_layernorm", 1, o.hidden);
      add("post_feedforward_layernorm", 1, o.hidden);
    }
    if (o.family.qk_norm) {
      add("self_attn.q_norm", 1, o.head_dim);
      add("self_attn.k_norm", 1, o.head_dim);
    }
    if (o.family.qkv_bias) {
      const auto add_bias = [&](const char* part, int size) {
        tensors.push_back(random_tensor(fmt::format("model.layers.{}.{}.bias", i, part), 1, size));
      };
      add_bias("self_attn.q_proj", q_dim);
      add_bias("self_attn.k_proj", kv_dim);
      add_bias("self_attn.v_proj", kv_dim);
    }
    add("mlp.gate_proj", o.intermediate, o.hidden);
    add("mlp.up_proj", o.intermediate, o.hidden);
    add("mlp.down_proj", o.hidden, o.intermediate);
  }

  write_tensors(tensors);
}

inline void TinyModel::write_tensors(const std::vector<Stored>& tensors) {
  const TinyModelOptions& o = options_;
  if (!o.sharded) {
    write_file(dir_ / "model.safetensors", safetensors(tensors, o.dtype));
    return;
  }
  std::string map;
  std::vector<Stored> shards[2];
  for (size_t i = 0; i < tensors.size(); ++i) {
    map += fmt::format("{}\"{}\": \"shard-{}.safetensors\"", i == 0 ? "" : ", ", tensors[i].name,
                       i % 2);
    shards[i % 2].push_back(tensors[i]);
  }
  for (int s = 0; s < 2; ++s) {
    write_file(dir_ / fmt::format("shard-{}.safetensors", s), safetensors(shards[s], o.dtype));
  }
  write_file(dir_ / "model.safetensors.index.json",
             fmt::format("{{\"metadata\": {{}}, \"weight_map\": {{{}}}}}", map));
}

// Weights chosen so that matrices roughly keep the scale of their input; norms multiply by about 1.
inline TinyModel::Stored TinyModel::random_tensor(const std::string& name, int rows, int cols) {
  const bool norm = rows == 1 && name.find("norm") != std::string::npos;
  Stored stored = {name,
                   rows == 1 ? fmt::format("[{}]", cols) : fmt::format("[{}, {}]", rows, cols), ""};
  for (int i = 0; i < rows * cols; ++i) {
    const float unit = static_cast<float>(random_() >> 8) / 8388608.0f - 1.0f;  // [-1, 1)
    stored.bytes += encode(norm ? options_.family.norm_center + 0.3f * unit : 0.6f * unit);
  }
  return stored;
}

// Truncates, which is good enough for random values of ordinary size.
inline std::string TinyModel::encode(float value) const {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (options_.dtype == DType::kF32) return {reinterpret_cast<const char*>(&bits), sizeof(bits)};
  auto half = static_cast<uint16_t>(bits >> 16);
  if (options_.dtype == DType::kF16) {
    const int exponent = static_cast<int>(bits >> 23 & 0xFF) - 127 + 15;
    half = static_cast<uint16_t>(bits >> 16 & 0x8000);
    if (exponent > 0) half |= static_cast<uint16_t>(exponent << 10 | (bits >> 13 & 0x3FF));
  }
  return {reinterpret_cast<const char*>(&half), sizeof(half)};
}

inline std::string TinyModel::safetensors(const std::vector<Stored>& tensors, DType dtype) {
  const char* type = dtype == DType::kF32 ? "F32" : dtype == DType::kF16 ? "F16" : "BF16";
  std::string header = "{\"__metadata__\": {\"format\": \"pt\"}", data;
  for (const Stored& tensor : tensors) {
    header += fmt::format(R"(, "{}": {{"dtype": "{}", "shape": {}, "data_offsets": [{}, {}]}})",
                          tensor.name, type, tensor.shape, data.size(),
                          data.size() + tensor.bytes.size());
    data += tensor.bytes;
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data;
}

}  // namespace pagedinfer
