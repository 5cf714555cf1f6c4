// GLM-4: part of a head is rotated, in pairs of neighbours; norms stand before and behind the
// blocks; gate and up are one tensor.
#include <fmt/format.h>

#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_glm4(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.vocab = 151552,
              .intermediate = 13696,
              .max_positions = 131072,
              .layers = 40,
              .kv_heads = 2,
              .head_dim = 128,
              .norm_eps = 1.5625e-7},
             spec);
  for (const TokenId token : {151329, 151336, 151338}) {
    if (token < spec.vocab) spec.eos_tokens.push_back(token);
  }
  expect_activation(config, "hidden_act", Activation::kSilu);
  config.keep([&] { spec.qkv_bias = config.find_bool("attention_bias").value_or(true); });
  spec.norms_outputs = true;
  spec.pair_rows = PairRows::kNeighbours;
  read_rope(config, {.may_be_partial = true, .rotated_share = 0.5}, spec);
  read_equal_windows(config, 0, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const auto in_layer = [&](std::string_view part) {
      return fmt::format("model.layers.{}.{}.weight", i, part);
    };
    LayerNames& layer = names.front().layers[i];
    layer.attention_out_norm = in_layer("post_self_attn_layernorm");
    layer.mlp_norm = in_layer("post_attention_layernorm");
    layer.mlp_out_norm = in_layer("post_mlp_layernorm");
    layer.gate = layer.up = in_layer("mlp.gate_up_proj");
  }
}

}  // namespace pagedinfer
