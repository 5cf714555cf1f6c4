// Granite 3: the embedding, scores, outputs of blocks and logits are multiplied by numbers of its
// own. Granite MoE: its layers have experts, perhaps beside a shared one.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {
namespace {

void read_all_but_mlp(const JsonObject& config, ModelSpec& spec) {
  read_sizes(config, {.vocab = 32000, .intermediate = 11008, .max_positions = 2048, .eos_token = 2},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  read_attention_bias(config, spec);
  read_equal_windows(config, 0, spec);
  spec.embedding_scale = read_multiplier(config, "embedding_multiplier", 1.0);
  spec.attention_scale = read_multiplier(config, "attention_multiplier", 1.0);
  spec.residual_scale = read_multiplier(config, "residual_multiplier", 1.0);
  spec.logit_scale = 1.0f / read_multiplier(config, "logits_scaling", 1.0);
  read_rope(config, {}, spec);
}

}  // namespace

void read_granite(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_all_but_mlp(config, spec);
  read_mlp_bias(config, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

void read_granite_moe(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_all_but_mlp(config, spec);
  read_experts(config, {.count_key = "num_local_experts", .count = 8, .per_token = 2}, spec);
  config.keep([&] {
    spec.experts.shared_width = static_cast<int>(
        config.find_integer("shared_intermediate_size", 0, kMaxExpertWidth).value_or(0));
  });
  names.assign(2, usual_names("model.", "lm_head.weight", spec));
  ExpertNaming naming = {.block = "block_sparse_moe",
                         .router = "router.layer.weight",
                         .module = "block_sparse_moe.experts",
                         .shared_gate_proj = "shared_mlp.gate_proj.weight",
                         .shared_up_proj = "shared_mlp.up_proj.weight",
                         .shared_down_proj = "shared_mlp.output_linear.weight"};
  add_expert_names("model.", naming, spec, names[1]);  // as GGUF files have them
  naming.gate = naming.up = "input_linear.weight";
  naming.down = "output_linear.weight";
  naming.storage = ExpertStorage::kStackedRows;
  naming.shared_gate_proj = naming.shared_up_proj = "shared_mlp.input_linear.weight";
  add_expert_names("model.", naming, spec, names[0]);
}

}  // namespace pagedinfer
