// EXAONE 4: norms as OLMo 2 has them, heads normalized as in Qwen 3. Where layers slide, only those
// have rope.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {

void read_exaone4(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_sizes(config,
             {.vocab = 102400,
              .intermediate = 16384,
              .max_positions = 2048,
              .kv_heads = 32,
              .eos_token = 2,
              .norm_eps = 1e-5},
             spec);
  expect_activation(config, "hidden_act", Activation::kSilu);
  spec.qk_norm = QkNorm::kHeads;
  spec.norms_inputs = false;
  spec.norms_outputs = true;
  read_rope(config, {}, spec);

  const std::optional<int> window = read_window(config, 4096);
  SlidingLayers by_pattern;
  if (window == 0) {
    by_pattern.emplace(spec.layers.size(), false);
  } else if (!config.has("layer_types")) {
    config.keep([&] {
      const auto pattern = config.find_integer("sliding_window_pattern", 1, 1 << 12);
      by_pattern = all_but_each(pattern.value_or(4), spec);
    });
  }
  const SlidingLayers slides = read_windows(config, by_pattern, window, spec);
  for (size_t i = 0; slides && window && i < spec.layers.size(); ++i) {
    spec.layers[i].rope = *window == 0 || (*slides)[i] ? 0 : kNoRope;
  }
  names = {usual_names("model.", "lm_head.weight", spec)};
}

}  // namespace pagedinfer
