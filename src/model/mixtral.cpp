// Mixtral: Mistral with experts as wide as its MLP. Its layers have a window only if config.json
// gives one.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_mixtral(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.vocab = 32000,
              .intermediate = 14336,
              .max_positions = 131072,
              .kv_heads = 8,
              .eos_token = 2,
              .norm_eps = 1e-5},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  read_rope(config, {.theta = 1000000.0}, spec);
  read_equal_windows(config, read_window(config, 0), spec);
  read_experts(config, {.count_key = "num_local_experts", .count = 8, .per_token = 2}, spec);
  names.assign(2, usual_names("model.", "lm_head.weight", spec));
  add_expert_names(
      "model.",
      {.block = "block_sparse_moe", .gate = "w1.weight", .up = "w3.weight", .down = "w2.weight"},
      spec, names[0]);
  add_expert_names("model.", stacked({}), spec, names[1]);
}

}  // namespace pagedinfer
