// Granite 3: the embedding, scores, outputs of blocks and logits are multiplied by numbers of its
// own.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_granite(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config, {.vocab = 32000, .intermediate = 11008, .max_positions = 2048, .eos_token = 2},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  read_attention_bias(config, spec);
  read_mlp_bias(config, spec);
  read_equal_windows(config, 0, spec);
  spec.embedding_scale = read_multiplier(config, "embedding_multiplier", 1.0);
  spec.attention_scale = read_multiplier(config, "attention_multiplier", 1.0);
  spec.residual_scale = read_multiplier(config, "residual_multiplier", 1.0);
  spec.logit_scale = 1.0f / read_multiplier(config, "logits_scaling", 1.0);
  read_rope(config, {}, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

}  // namespace pagedinfer
