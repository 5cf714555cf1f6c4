// Qwen 2 and 2.5: q, k and v always have a bias, and the output of attention has none;
// "attention_bias" is ignored, as in transformers. Qwen 2.5 VL: the same with other defaults.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {
namespace {

void read(const JsonObject& config, const ConfigDefaults& defaults, double theta,
          int first_sliding_layer, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config, defaults, spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  spec.qkv_bias = true;
  read_mlp_bias(config, spec);
  read_rope(config, {.theta = theta}, spec);
  read_upper_windows(config, spec, first_sliding_layer);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

void read_qwen2_5_vl_text(const JsonObject& config, ModelSpec& spec,
                          std::vector<TensorNames>& names) {
  read(config,
       {.hidden = 8192,
        .vocab = 152064,
        .intermediate = 29568,
        .max_positions = 32768,
        .layers = 80,
        .heads = 64,
        .kv_heads = 8,
        .eos_token = 151645,
        .norm_eps = 1e-5},
       1e6, 80, spec, names);
}

}  // namespace

void read_qwen2(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read(config, {.vocab = 151936, .intermediate = 22016, .max_positions = 32768, .kv_heads = 32},
       1e4, 28, spec, names);
}

void read_qwen2_5_vl_wrapper(const JsonObject& config, ModelSpec& spec,
                             std::vector<TensorNames>& names) {
  read_wrapped(config,
               {.read_text = read_qwen2_5_vl_text,
                .may_be_flat = true,
                .published = TextPlace::kOnTop,
                .parts = {"visual."}},
               spec, names);
}

}  // namespace pagedinfer
