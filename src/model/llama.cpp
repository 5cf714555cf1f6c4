// Llama 2, 3, 3.1 and 3.2.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_llama(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config, {.vocab = 32000, .intermediate = 11008, .max_positions = 2048, .eos_token = 2},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  read_attention_bias(config, spec);
  read_mlp_bias(config, spec);
  read_equal_windows(config, 0, spec);
  read_rope(config, {}, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

}  // namespace pagedinfer
