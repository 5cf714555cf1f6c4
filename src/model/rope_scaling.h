#pragma once

#include <vector>

#include "io/json_file.h"

namespace pagedinfer {

// The frequencies of rotary embedding in radians per position, (head_dim / 2), from a config's
// rope_theta with rope_scaling or rope_parameters: types default, linear and llama3. Rounded
// as Hugging Face transformers rounds them, so that the angles of far positions agree.
std::vector<float> rope_frequencies(const JsonObject& config, int head_dim);

// base^(-2 i / head_dim) for i < head_dim / 2.
std::vector<float> default_frequencies(float base, int head_dim);

}  // namespace pagedinfer
