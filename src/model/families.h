#pragma once

#include "io/json_file.h"
#include "model/model.h"

namespace pagedinfer {

// Fills in `spec` and `names` from config.json. Throws Error for what the family, as we
// compute it, does not cover.
using ReadFamily = void (*)(const JsonObject& config, ModelSpec& spec, TensorNames& names);

// The family that config.json names in "architectures" (or, without that, in "model_type").
// Throws Error naming it and the supported ones if it is none of them.
ReadFamily find_family(const JsonObject& config);

// The fields that all families share: sizes, layers, norm_eps, tied embeddings. Throws Error for
// sizes that make no sense together.
void read_sizes(const JsonObject& config, ModelSpec& spec);

// Throws Error unless the field is absent or false.
void refuse(const JsonObject& config, std::string_view key);

// One line for each family, each with a file of its own.
void read_llama(const JsonObject& config, ModelSpec& spec, TensorNames& names);

}  // namespace pagedinfer
