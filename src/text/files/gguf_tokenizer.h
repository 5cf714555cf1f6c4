#pragma once

#include <functional>
#include <map>
#include <string>

#include "io/json_file.h"

namespace pagedinfer {

// The files that a tokenizer and its chat templates would have in a model folder, by their names,
// made of the metadata of a GGUF file ("tokenizer.ggml.*", "tokenizer.chat_template"). Empty if
// they have no tokenizer. Throws Error, naming the file and the key, if the kind of tokenizer is
// not known or its lists do not fit each other.
std::map<std::string, std::string, std::less<>> gguf_tokenizer_files(const JsonObject& metadata);

}  // namespace pagedinfer
