// How `pagedinfer info` shows a model.
#pragma once

#include <string>

#include "commands/info/model_info.h"

namespace pagedinfer {

// The description as readable lines.
std::string info_text(const ModelInfo& info);

// The description as one JSON object on one line.
std::string info_json(const ModelInfo& info);

}  // namespace pagedinfer
