// OLMo 2: norms stand behind the blocks, not before them, and q and k are normalized as whole rows.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_newer_olmo(const JsonObject& config, ModelSpec& spec) {
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
}

void read_olmo2(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_newer_olmo(config, spec);
  read_equal_windows(config, 0, spec);
  read_rope(config, {}, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

}  // namespace pagedinfer
