#pragma once

#include <string>

namespace pagedinfer {

// The keys of prompt and id in lines that are not of the OpenAI form.
struct KeyNames {
  std::string prompt = "prompt", id = "id";
};

inline const KeyNames kUsualNames = {};

}  // namespace pagedinfer
