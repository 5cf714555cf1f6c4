// Qwen 3: q and k are normalized per head; head_dim is independent of hidden / heads. Qwen 3 VL:
// the same without windows and with other defaults.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {
namespace {

void read(const JsonObject& config, int max_positions, double theta, ModelSpec& spec,
          std::vector<TensorNames>& names) {
  read_sizes(config,
             {.vocab = 151936,
              .intermediate = 22016,
              .max_positions = max_positions,
              .kv_heads = 32,
              .head_dim = 128},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  read_attention_bias(config, spec);
  read_mlp_bias(config, spec);
  spec.qk_norm = QkNorm::kHeads;
  read_rope(config, {.theta = theta}, spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

void read_qwen3_vl_text(const JsonObject& config, ModelSpec& spec,
                        std::vector<TensorNames>& names) {
  read(config, 128000, 5e5, spec, names);
}

}  // namespace

void read_qwen3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read(config, 32768, 1e4, spec, names);
  read_upper_windows(config, spec);
}

void read_qwen3_vl_wrapper(const JsonObject& config, ModelSpec& spec,
                           std::vector<TensorNames>& names) {
  read_wrapped(config, {.read_text = read_qwen3_vl_text, .parts = {"visual."}}, spec, names);
}

}  // namespace pagedinfer
