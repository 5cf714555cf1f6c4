// Where the model is that --model names: a directory, one of the bundled models, or a model in the
// cache of the Hugging Face hub's client. Nothing is downloaded.
#pragma once

#include <string>
#include <string_view>

namespace pagedinfer {

// Whether the text has the form of a model's name in the hub, ORG/NAME.
bool is_hub_name(std::string_view name);

// The folder that the hub's client takes: HF_HUB_CACHE, hub in HF_HOME, or
// ~/.cache/huggingface/hub. It need not exist.
std::string hub_cache_folder();

// The model's folder in the cache, models--ORG--NAME; it need not exist. REQUIRES: is_hub_name()
std::string folder_in_cache(const std::string& cache, std::string_view name);

// The model's name in the hub, from the name of such a folder; "" if it is none.
std::string hub_name_of(std::string_view folder);

// For an error message: the cache, and the models that are in it.
std::string describe_cache(const std::string& cache);

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
