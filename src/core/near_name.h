#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// The name that a misspelt word may stand for: the nearest of `names`, at most two edits away (a
// letter inserted, removed, replaced or swapped with the next one) and fewer than half its letters.
std::optional<std::string> near_name(std::string_view word, const std::vector<std::string>& names);

}  // namespace pagedinfer
