// Ministral 3: a Mistral whose q grows with its position, beyond the length of the first training.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_ministral3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.vocab = 131072,
              .intermediate = 14336,
              .max_positions = 262144,
              .layers = 34,
              .kv_heads = 8,
              .head_dim = 128,
              .eos_token = 2,
              .norm_eps = 1e-5},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  if (!config.has("rope_parameters") && !config.has("rope_scaling")) {
    config.complain("rope_parameters", "nothing", "an object");
  }
  read_rope(config, {.scales_q = true}, spec);
  read_equal_windows(config, read_window(config, 0), spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

}  // namespace pagedinfer
