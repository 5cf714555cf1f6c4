#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// Which of `names` somebody may have meant by a word that is none of them: the nearest one, at most
// two letters wrong, missing, too many or in the wrong order, and most of them right.
std::optional<std::string> near_name(std::string_view word, const std::vector<std::string>& names);

}  // namespace pagedinfer
