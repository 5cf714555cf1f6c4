// Phi-3 and Phi-4: q, k and v are one tensor, as are gate and up; rope may leave part of a head.
#include <fmt/format.h>

#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_phi3(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.hidden = 3072,
              .vocab = 32064,
              .intermediate = 8192,
              .max_positions = 4096,
              .eos_token = 32000,
              .norm_eps = 1e-5},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  read_rope(config, {.may_be_partial = true, .trained_positions = 4096, .only_longrope = true},
            spec);
  read_equal_windows(config, read_window(config, 0), spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    LayerNames& layer = names.front().layers[i];
    layer.q = layer.k = layer.v = fmt::format("model.layers.{}.self_attn.qkv_proj.weight", i);
    layer.gate = layer.up = fmt::format("model.layers.{}.mlp.gate_up_proj.weight", i);
  }
}

}  // namespace pagedinfer
