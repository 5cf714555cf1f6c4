#pragma once

#include <string>
#include <string_view>

namespace pagedinfer {

// Files that a model directory may have beside its weights, *.safetensors, and that change what it
// computes.
inline constexpr std::string_view kModelFiles[] = {"config.json",
                                                   "generation_config.json",
                                                   "model.safetensors.index.json",
                                                   "tokenizer.json",
                                                   "tokenizer.model",
                                                   "tokenizer_config.json",
                                                   "special_tokens_map.json",
                                                   "chat_template.jinja",
                                                   "chat_template.json"};

// The directory that --model names: itself, or the snapshot of a hub cache folder, or the bundled
// model of that short name, which lies in datasets/ or datasets/configs/ of the source tree or in
// share/pagedinfer/ of an installation, both found from the program's own path. Throws Error with
// what is there instead, or with the places looked at.
std::string find_model(const std::string& name, const std::string& program_path);

// What records call the model of that directory, however the path to it is spelt: the last part of
// where it really lies, or ORG/NAME of a hub cache's models--ORG--NAME/snapshots/HASH.
std::string name_of_model(const std::string& dir);

// Of the running program; "" where the system does not say.
std::string program_path();

}  // namespace pagedinfer
