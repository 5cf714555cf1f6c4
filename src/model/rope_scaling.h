#pragma once

#include <string_view>
#include <vector>

#include "io/json_file.h"

namespace pagedinfer {

// The frequencies of rotary position embedding, (head_dim / 2) in radians per position, as
// config.json gives them by "rope_theta" with "rope_scaling" or by "rope_parameters": types
// default, linear and llama3. They are rounded as in Hugging Face transformers, so that the angles
// of far positions agree. Complains of other types and of values out of range.
std::vector<float> rope_frequencies(const JsonObject& config, int head_dim);

// One type of layers, where each type has a rope of its own.
struct LayerRope {
  std::string_view type;       // its key in "rope_parameters"
  std::string_view theta_key;  // key of its theta in configs without "rope_parameters"
  double theta;                // if neither gives one
};

// The frequencies of one type of layers. "rope_parameters" has an object for each type; in older
// configs "rope_scaling" applies to the type full_attention only.
std::vector<float> layer_rope_frequencies(const JsonObject& config, const LayerRope& layers,
                                          int head_dim);

// base^(-2 i / head_dim) for i < head_dim / 2. REQUIRES: 1 <= base <= 1e12.
std::vector<float> default_frequencies(float base, int head_dim);

}  // namespace pagedinfer
