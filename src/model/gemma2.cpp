// Gemma 2: scores and logits have a soft cap; every other layer slides, beginning with the first.
#include "model/families.h"
#include "model/rope_scaling.h"

namespace pagedinfer {
namespace {

// 0 if the field is null.
float read_cap(const JsonObject& config, std::string_view key, double fallback) {
  return config.is_null(key) ? 0.0f : read_multiplier(config, key, fallback);
}

}  // namespace

void read_gemma2(const JsonObject& config, ModelSpec& spec, std::vector<TensorNames>& names) {
  read_newer_gemma(config, 256000, 8192, spec);
  spec.score_cap = read_cap(config, "attn_logit_softcapping", 50.0);
  spec.logit_cap = read_cap(config, "final_logit_softcapping", 30.0);
  read_rope(config, {}, spec);

  std::vector<bool> alternating;
  for (size_t i = 0; i < spec.layers.size(); ++i) alternating.push_back(i % 2 == 0);
  read_windows(config, alternating, read_window(config, 4096), spec);
  names = {usual_names("model.", "lm_head.weight", spec)};
}

}  // namespace pagedinfer
