// OLMo 3: an OLMo 2 in which three of four layers slide, and only the others have a scaled rope.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_olmo3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.vocab = 50304,
              .intermediate = 11008,
              .max_positions = 2048,
              .eos_token = 50279,
              .norm_eps = 1e-5},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  read_attention_bias(config, spec);
  spec.qk_norm = QkNorm::kRows;
  spec.norms_inputs = false;
  spec.norms_outputs = true;

  const SlidingLayers slides =
      read_windows(config, all_but_each(4, spec), read_window(config, 4096), spec);
  constexpr double kTheta = 5e5;
  read_layer_ropes(config, {"rope_theta", kTheta}, {"rope_theta", kTheta}, slides, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

}  // namespace pagedinfer
