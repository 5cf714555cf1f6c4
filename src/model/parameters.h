// How many numbers a model has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "model/model.h"

namespace pagedinfer {

struct Parameters {
  int64_t all = 0;
  int64_t active = 0;  // those that a token goes through: of the experts only its own
};

// `needed`: the model's tensors (needed_tensors()).
Parameters parameters_of(const ModelSpec& spec, const std::vector<Checkpoint::Declared>& needed);
Parameters parameters_of(const OpenedModel& model);

// "34,908, 9,492 of them for a token"
std::string text_of(const Parameters& parameters);

}  // namespace pagedinfer
