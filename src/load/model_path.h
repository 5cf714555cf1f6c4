#pragma once

#include <string>
#include <string_view>

#include "load/hub_cache.h"

namespace pagedinfer {

// The files of a model directory, besides *.safetensors, that affect completions.
inline constexpr std::string_view kModelFiles[] = {"config.json",
                                                   "generation_config.json",
                                                   "model.safetensors.index.json",
                                                   "tokenizer.json",
                                                   "tokenizer.model",
                                                   "tokenizer_config.json",
                                                   "special_tokens_map.json",
                                                   "chat_template.jinja",
                                                   "chat_template.json"};

// The directory for --model: `name` itself, the snapshot of a hub cache folder, the bundled model
// of that short name, or the snapshot of the model ORG/NAME in `hub_cache`. Bundled models are in
// datasets/ or datasets/configs/ of the source tree, or in share/pagedinfer/ of an installation,
// relative to the program. Throws Error saying what was found instead, or which places were
// searched.
std::string find_model(const std::string& name, const std::string& program_path,
                       const std::string& hub_cache = hub_cache_folder());

// The name of the model in records: the last part of the directory's canonical path, or ORG/NAME
// for a hub cache's models--ORG--NAME/snapshots/HASH.
std::string name_of_model(const std::string& dir);

// The path of the running program; "" if it is unknown.
std::string program_path();

}  // namespace pagedinfer
