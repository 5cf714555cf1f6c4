// How `pagedinfer info` shows a model.
#pragma once

#include <string>

#include "commands/info/model_info.h"

namespace pagedinfer {

// Lines for people.
std::string info_text(const ModelInfo& info);

// One object, on one line.
std::string info_json(const ModelInfo& info);

}  // namespace pagedinfer
