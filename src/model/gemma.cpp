#include <cmath>

#include "model/families.h"

namespace pagedinfer {

void read_gemma(const JsonObject& config, ModelSpec& spec) {
  spec.activation = Activation::kGeluTanh;
  spec.norm_weight_offset = 1.0f;
  spec.norms_outputs = true;
  spec.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden)));
  spec.rounds_embedding_scale = true;
  config.keep([&] {
    const double scalar = config.find_number("query_pre_attn_scalar", 1e-6, 1e12).value_or(256.0);
    spec.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
  });
}

}  // namespace pagedinfer
