#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/spec.h"

namespace pagedinfer {

// What a model computes that a plain one does not, in words: ("soft caps", "scores at 50"). Of the
// spec as far as it is known.
std::vector<std::pair<std::string, std::string>> traits_of(const ModelSpec& spec);

}  // namespace pagedinfer
