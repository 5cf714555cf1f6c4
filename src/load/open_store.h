#pragma once

#include <string>

#include "io/model_store.h"

namespace pagedinfer {

// The model in a folder, or in a GGUF file, whose metadata become the text files of a folder.
// Throws Error if the file cannot be read or its metadata are not what a model needs.
ModelStore open_store(const std::string& path);

}  // namespace pagedinfer
