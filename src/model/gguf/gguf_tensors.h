#pragma once

#include "io/gguf_file.h"
#include "io/safetensors.h"

namespace pagedinfer {

// The tensors of a GGUF file by the names that the model of transformers has for them, the experts
// of a layer apart. A tensor of another name keeps it. Throws Error if the architecture is not
// known, a tensor of experts has no shape of such, or two have one name.
Checkpoint gguf_checkpoint(const GgufFile& file);

}  // namespace pagedinfer
