// The cache in which the client of the Hugging Face hub keeps models. Nothing is downloaded.
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

}  // namespace pagedinfer
