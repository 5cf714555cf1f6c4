#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// The words of a text as a shell would split it: spaces separate them unless they stand in single
// or double quotes; outside of single quotes a backslash takes away what the next character means.
// Nothing else means anything. Throws Error for a quote that does not end.
std::vector<std::string> split_words(std::string_view text);

}  // namespace pagedinfer
