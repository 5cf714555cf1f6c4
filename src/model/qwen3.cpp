// Qwen 3: q and k are normalized per head; head_dim is independent of hidden / heads.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_qwen3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.vocab = 151936,
              .intermediate = 22016,
              .max_positions = 32768,
              .kv_heads = 32,
              .head_dim = 128},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  read_attention_bias(config, spec);
  read_mlp_bias(config, spec);
  spec.qk_norm = QkNorm::kHeads;
  read_rope(config, {}, spec);
  read_upper_windows(config, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

}  // namespace pagedinfer
