#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pagedinfer {

// Splits a text into words as a shell does. Spaces separate words, except in single or double
// quotes. Outside of single quotes a backslash makes the next character an ordinary one. No other
// character is special. Throws Error if a quote does not end.
std::vector<std::string> split_words(std::string_view text);

}  // namespace pagedinfer
