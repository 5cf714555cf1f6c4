// Llama 2, 3, 3.1 and 3.2.
#include <algorithm>

#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_llama(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config, {.vocab = 32000, .intermediate = 11008, .max_positions = 2048, .eos_token = 2},
             spec);
  expect(config, "hidden_act", "silu");
  read_attention_bias(config, spec);
  read_mlp_bias(config, spec);
  const SlidingLayers slides = read_layer_types(config, spec.layers.size());
  if (slides && std::ranges::find(*slides, true) != slides->end()) {
    config.complain("layer_types", "has 'sliding_attention', which is not supported");
  }
  read_rope(config, {}, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

}  // namespace pagedinfer
