#include "model/gguf/architectures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/refusal.h"
#include "model/gguf/gguf_keys.h"

namespace pagedinfer {
namespace {

// Fields of models with experts.
constexpr GgufField kNumExperts = {"expert_count", "num_experts"},
                    kLocalExperts = {"expert_count", "num_local_experts"},
                    kUsedExperts = {"expert_used_count", "num_experts_per_tok"},
                    kExpertWidth = {"expert_feed_forward_length", "moe_intermediate_size"};

constexpr GgufName kRouterName = {"ffn_gate_inp.", "mlp.gate."};
// Where a norm follows each block.
constexpr GgufName kNormBeforeMlp = {"ffn_norm.", "pre_feedforward_layernorm."};
// gate and up in one matrix.
constexpr GgufName kGateUp = {"ffn_up.", "mlp.gate_up_proj."};

// Layers that slide, if the file lists them.
void write_layer_types(const GgufKeys& keys, JsonWriter& config) {
  const std::vector<bool> slides = keys.booleans("attention.sliding_window_pattern");
  if (slides.empty()) return;
  config.key("layer_types").begin_array();
  for (const bool does : slides) config.value(does ? "sliding_attention" : "full_attention");
  config.end_array();
}

// The scale of Gemma's scores. The file does not have it; it follows from the number of layers.
void write_gemma_scale(const GgufKeys& keys, int64_t layers_of_largest, JsonWriter& config) {
  const bool is_largest = keys.integer("block_count") == layers_of_largest;
  config.field("query_pre_attn_scalar",
               is_largest ? double(keys.integer("embedding_length")) / keys.heads()
                          : double(keys.head_dim()));
}

void write_llama(const GgufKeys& keys, JsonWriter& config) {
  // A model with experts is another one in transformers.
  const bool has_experts = keys.find_integer("expert_count").value_or(0) > 0;
  config.key("architectures").begin_array();
  config.value(has_experts ? "MixtralForCausalLM" : "LlamaForCausalLM").end_array();
}

void write_mistral3(const GgufKeys& keys, JsonWriter& config) {
  const bool scales_q = keys.has("attention.temperature_scale");
  config.key("architectures").begin_array();
  config.value(scales_q ? "Ministral3ForCausalLM" : "MistralForCausalLM").end_array();
  config.field("sliding_window", nullptr);
}

void write_olmo2(const GgufKeys& keys, JsonWriter& config) {
  const bool slides = keys.find_integer("attention.sliding_window").value_or(0) > 0;
  config.key("architectures").begin_array();
  config.value(slides ? "Olmo3ForCausalLM" : "Olmo2ForCausalLM").end_array();
  write_layer_types(keys, config);
}

void write_gemma2(const GgufKeys& keys, JsonWriter& config) { write_gemma_scale(keys, 46, config); }
void write_gemma3(const GgufKeys& keys, JsonWriter& config) {
  write_gemma_scale(keys, 62, config);
  // A file whose layers all see everything has no window.
  if (!keys.has("attention.sliding_window")) config.field("sliding_window_pattern", 1);
}

void write_qwen3moe(const GgufKeys&, JsonWriter& config) { config.field("norm_topk_prob", true); }

void write_exaone4(const GgufKeys& keys, JsonWriter& config) {
  write_layer_types(keys, config);
  if (!keys.has("attention.sliding_window")) config.field("sliding_window", nullptr);
}

const GgufArchitecture kArchitectures[] = {
    {.name = "llama",
     .fields = {kLocalExperts, kUsedExperts},
     .names = {{"ffn_gate_inp.", "block_sparse_moe.gate."}},
     .experts = {"block_sparse_moe.experts", "w1", "w3", "w2"},
     .turns_heads = true,
     .write_more = write_llama},
    {.name = "mistral3", .turns_heads = true, .write_more = write_mistral3},
    {.name = "smollm3", .model = "SmolLM3ForCausalLM", .turns_heads = true},
    {.name = "granite", .model = "GraniteForCausalLM", .turns_heads = true},
    {.name = "granitemoe",
     .model = "GraniteMoeForCausalLM",
     .fields = {kLocalExperts,
                kUsedExperts,
                {"expert_shared_feed_forward_length", "shared_intermediate_size"}},
     .names = {{"ffn_gate_inp.", "block_sparse_moe.router.layer."},
               {"ffn_gate_shexp.", "shared_mlp.gate_proj."},
               {"ffn_up_shexp.", "shared_mlp.up_proj."},
               {"ffn_down_shexp.", "shared_mlp.output_linear."}},
     .experts = {"block_sparse_moe.experts"},
     .turns_heads = true},
    {.name = "qwen2", .model = "Qwen2ForCausalLM"},
    {.name = "qwen3", .model = "Qwen3ForCausalLM"},
    {.name = "qwen2moe",
     .model = "Qwen2MoeForCausalLM",
     .fields = {kNumExperts,
                kUsedExperts,
                kExpertWidth,
                {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}},
     .names = {kRouterName,
               {"ffn_gate_shexp.", "mlp.shared_expert.gate_proj."},
               {"ffn_up_shexp.", "mlp.shared_expert.up_proj."},
               {"ffn_down_shexp.", "mlp.shared_expert.down_proj."},
               {"ffn_gate_inp_shexp.", "mlp.shared_expert_gate."}}},
    {.name = "qwen3moe",
     .model = "Qwen3MoeForCausalLM",
     .fields = {kNumExperts, kUsedExperts, kExpertWidth},
     .names = {kRouterName},
     .write_more = write_qwen3moe},
    {.name = "olmoe",
     .model = "OlmoeForCausalLM",
     .fields = {kNumExperts, kUsedExperts, {"attention.clamp_kqv", "clip_qkv"}},
     .names = {kRouterName}},
    {.name = "gpt-oss",
     .model = "GptOssForCausalLM",
     .fields = {kLocalExperts, kUsedExperts, {"attention.sliding_window", "sliding_window"}},
     .names = {{"ffn_gate_inp.", "mlp.router."}, {"attn_sinks.weight", "self_attn.sinks"}},
     .has_exact_yarn = true},
    {.name = "gemma", .model = "GemmaForCausalLM", .adds_to_norms = true},
    {.name = "gemma2",
     .model = "Gemma2ForCausalLM",
     .fields = {{"attn_logit_softcapping", "attn_logit_softcapping"},
                {"final_logit_softcapping", "final_logit_softcapping"},
                {"attention.sliding_window", "sliding_window"}},
     .names = {kNormBeforeMlp},
     .adds_to_norms = true,
     .write_more = write_gemma2},
    {.name = "gemma3",
     .model = "Gemma3ForCausalLM",
     .fields = {{"attention.sliding_window", "sliding_window"},
                {"final_logit_softcapping", "final_logit_softcapping"}},
     .names = {kNormBeforeMlp},
     .adds_to_norms = true,
     .write_more = write_gemma3},
    {.name = "phi3",
     .model = "Phi3ForCausalLM",
     .fields = {{"attention.sliding_window", "sliding_window"}},
     .names = {kGateUp}},
    {.name = "glm4",
     .model = "Glm4ForCausalLM",
     .names = {kGateUp,
               {"post_attention_norm.", "post_self_attn_layernorm."},
               {"post_ffw_norm.", "post_mlp_layernorm."}}},
    {.name = "olmo2",
     .fields = {{"attention.sliding_window", "sliding_window"}},
     .write_more = write_olmo2},
    {.name = "exaone4",
     .model = "Exaone4ForCausalLM",
     .fields = {{"attention.sliding_window", "sliding_window"}},
     .write_more = write_exaone4},
};

}  // namespace

const GgufArchitecture& find_architecture(const JsonObject& metadata) {
  constexpr std::string_view kKey = "general.architecture";
  const std::string name = metadata.find_string(kKey).value_or("");
  const auto* const found = std::ranges::find(kArchitectures, name, &GgufArchitecture::name);
  if (found != std::end(kArchitectures)) return *found;
  std::string known;
  for (const GgufArchitecture& row : kArchitectures) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  metadata.refuse(kKey, shortened(name), fmt::format("one of {}", known));
}

}  // namespace pagedinfer
