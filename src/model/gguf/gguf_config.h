#pragma once

#include <string>

#include "io/gguf_file.h"

namespace pagedinfer {

// What config.json of the model would say that a GGUF file was made of, as far as it is run here.
// Throws Error, naming the file and the key, if the architecture is not known or a number is
// missing or of another type.
std::string gguf_config(const GgufFile& file);

}  // namespace pagedinfer
