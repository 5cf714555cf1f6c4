// OLMoE: experts only; q and k are normalized as whole rows, and q, k and v may be limited.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_olmoe(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.hidden = 2048,
              .vocab = 50304,
              .intermediate = 2048,
              .max_positions = 4096,
              .layers = 16,
              .heads = 16,
              .eos_token = 50279,
              .norm_eps = 1e-5},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  read_attention_bias(config, spec);
  spec.qk_norm = QkNorm::kRows;
  config.keep([&] {
    spec.qkv_limit = static_cast<float>(config.find_number("clip_qkv", 1e-6, 1e6).value_or(0.0));
  });
  read_rope(config, {}, spec);
  read_equal_windows(config, read_window(config, 0), spec);
  read_experts(config, {.count = 64, .per_token = 8}, spec);
  config.keep(
      [&] { spec.experts.normalizes_chosen = config.find_bool("norm_topk_prob").value_or(false); });
  names.assign(2, usual_names("model.", "lm_head.weight", spec));
  add_expert_names("model.", {}, spec, names[0]);
  add_expert_names("model.", stacked({}), spec, names[1]);
}

}  // namespace pagedinfer
