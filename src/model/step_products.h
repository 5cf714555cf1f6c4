#pragma once

#include <vector>

#include "model/decoder.h"
#include "ops/device_memory.h"

namespace pagedinfer {

// The products of forward() for a step as large as the bounds. The tensors of activations have the
// shapes and alignments of a step, and no memory.
std::vector<InputProducts> products_of_step(const ModelSpec& spec, const Weights& weights,
                                            DType activation, const StepBounds& bounds);

}  // namespace pagedinfer
