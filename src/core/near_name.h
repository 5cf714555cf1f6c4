#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// The name that a misspelt word may stand for: the nearest of `names`. It is at most two edits
// away, and at most one edit for each three of its letters. An edit inserts, removes or replaces a
// letter, or swaps it with the next one.
std::optional<std::string> near_name(std::string_view word, const std::vector<std::string>& names);

}  // namespace pagedinfer
