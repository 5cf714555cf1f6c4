// Llama 2, 3, 3.1 and 3.2.
#include <fmt/format.h>

#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_llama(const JsonObject& config, ModelSpec& spec, TensorNames& names) {
  read_sizes(config, spec);
  refuse(config, "attention_bias");
  refuse(config, "mlp_bias");
  const std::string activation = config.find_string("hidden_act").value_or("silu");
  if (activation != "silu")
    config.fail("hidden_act", fmt::format("is '{}', expected silu", activation));
  spec.activation = Activation::kSilu;
  spec.rope_inv_freq = {rope_frequencies(config, spec.head_dim)};

  names.embedding = "model.embed_tokens.weight";
  names.final_norm = "model.norm.weight";
  names.output = "lm_head.weight";
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const auto in_layer = [&](std::string_view part) {
      return fmt::format("model.layers.{}.{}.weight", i, part);
    };
    names.layers.push_back({
        .attention_norm = in_layer("input_layernorm"),
        .q = in_layer("self_attn.q_proj"),
        .k = in_layer("self_attn.k_proj"),
        .v = in_layer("self_attn.v_proj"),
        .attention_out = in_layer("self_attn.o_proj"),
        .mlp_norm = in_layer("post_attention_layernorm"),
        .gate = in_layer("mlp.gate_proj"),
        .up = in_layer("mlp.up_proj"),
        .down = in_layer("mlp.down_proj"),
    });
  }
}

}  // namespace pagedinfer
