#pragma once

#include <string>
#include <string_view>

namespace pagedinfer {

// For matching with Unicode 16's categories on a library that may know an older Unicode: where
// `text` has characters that Unicode 14 lacks, or classes differently, writes it to `out` with
// such characters replaced by older ones of the same category and size, and returns true. Also
// stands in for U+180E, which PCRE2 takes for white space. REQUIRES: `text` is UTF-8.
bool with_stand_ins(std::string_view text, std::string& out);

// Whether Unicode calls the character white space.
bool is_white_space(char32_t character);

}  // namespace pagedinfer
