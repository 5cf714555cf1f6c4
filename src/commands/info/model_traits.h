#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/spec.h"

namespace pagedinfer {

// What a model computes beyond a plain decoder, in words: ("soft caps", "scores at 50"). The spec
// may be incomplete.
std::vector<std::pair<std::string, std::string>> traits_of(const ModelSpec& spec);

}  // namespace pagedinfer
