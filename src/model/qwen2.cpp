// Qwen 2 and 2.5: q, k and v always have a bias, and the output of attention has none;
// "attention_bias" is ignored, as in transformers.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_qwen2(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.vocab = 151936, .intermediate = 22016, .max_positions = 32768, .kv_heads = 32},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  spec.qkv_bias = true;
  read_mlp_bias(config, spec);
  read_rope(config, {}, spec);
  read_upper_windows(config, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

}  // namespace pagedinfer
