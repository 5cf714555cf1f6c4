// gpt-oss: all layers have experts, every second one a window; heads have sinks, matrices biases,
// and the gate is limited.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_gpt_oss(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.hidden = 2880,
              .vocab = 201088,
              .intermediate = 2880,
              .max_positions = 131072,
              .layers = 36,
              .heads = 64,
              .kv_heads = 8,
              .head_dim = 64,
              .norm_eps = 1e-5},
             spec);
  config.keep([&] {
    spec.qkv_bias = spec.attention_out_bias = config.find_bool("attention_bias").value_or(true);
  });
  spec.has_sinks = true;
  if (!config.has("rope_parameters") && !config.has("rope_scaling")) {
    config.complain("rope_parameters", "", "an object");
  }
  read_rope(config, {.theta = 150000.0}, spec);
  std::vector<bool> every_second(spec.layers.size());
  for (size_t i = 0; i < every_second.size(); i += 2) every_second[i] = true;
  read_windows(config, every_second, read_window(config, 128), spec);
  read_experts(config, {.count_key = "num_local_experts", .count = 128, .per_token = 4}, spec);
  spec.experts.router_bias = spec.experts.biases = true;
  spec.activation = Activation::kClampedSwish;
  spec.experts.swish = {read_multiplier(config, "swiglu_alpha", 1.702),
                        read_multiplier(config, "swiglu_limit", 7.0)};
  names.assign(2, usual_names("model.", "lm_head.weight", spec));
  add_expert_names("model.",
                   {.router = "router.weight",
                    .router_bias = "router.bias",
                    .module = "",
                    .gate_bias = "gate_proj.bias",
                    .up_bias = "up_proj.bias",
                    .down_bias = "down_proj.bias"},
                   spec, names[1]);  // as GGUF files have them
  add_expert_names("model.",
                   {.router = "router.weight",
                    .router_bias = "router.bias",
                    .gate = "experts.gate_up_proj",
                    .up = "experts.gate_up_proj",
                    .down = "experts.down_proj",
                    .gate_bias = "experts.gate_up_proj_bias",
                    .up_bias = "experts.gate_up_proj_bias",
                    .down_bias = "experts.down_proj_bias",
                    .storage = ExpertStorage::kInterleavedColumns},
                   spec, names[0]);
}

}  // namespace pagedinfer
