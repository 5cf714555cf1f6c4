#pragma once

#include <string_view>
#include <vector>

#include "io/json_file.h"

namespace pagedinfer {

// The frequencies of rotary embedding in radians per position, (head_dim / 2), from a config's
// rope_theta with rope_scaling or rope_parameters: types default, linear and llama3. Rounded
// as Hugging Face transformers rounds them, so that the angles of far positions agree.
std::vector<float> rope_frequencies(const JsonObject& config, int head_dim);

// Layers that have a rope of their own.
struct LayerRope {
  std::string_view type;       // their key in rope_parameters
  std::string_view theta_key;  // where the config has their base if that lacks it
  double theta;                // and the base where neither has one
};

// The same for one type of layers: with "rope_parameters" by type, before which "rope_scaling"
// was for full_attention.
std::vector<float> layer_rope_frequencies(const JsonObject& config, const LayerRope& layers,
                                          int head_dim);

// base^(-2 i / head_dim) for i < head_dim / 2.
std::vector<float> default_frequencies(float base, int head_dim);

}  // namespace pagedinfer
