#pragma once

#include <string>
#include <vector>

#include "io/safetensors.h"
#include "model/model.h"
#include "model/quantized/quantized_weights.h"

namespace pagedinfer {

// Notes on parts of the checkpoint that have no effect: those of QuantizedWeights, and one on the
// tensors that the model does not use. It leaves out modules that are not run
// (TensorNames::unused), a tied output, and what changes nothing: tables of angles, and biases of
// zeros, which GPTQ's tools write. `needed`: needed_tensors() in the shapes of the files.
std::vector<std::string> weight_notes(const Checkpoint& files, const TensorNames& names,
                                      const std::vector<Checkpoint::Declared>& needed,
                                      const QuantizedWeights& quantized);

}  // namespace pagedinfer
