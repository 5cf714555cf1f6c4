#pragma once

#include <string>
#include <string_view>

namespace pagedinfer {

// Lets a regular-expression library with an older Unicode version match by the categories of
// Unicode
// 16. If `text` has characters that Unicode 14 lacks or classifies differently, writes it to `out`
// with each of them replaced by an older character of the right category and the same size, and
// returns true. Also replaces U+180E, which PCRE2 treats as white space. REQUIRES: `text` is UTF-8.
bool with_stand_ins(std::string_view text, std::string& out);

// Whether Unicode calls the character white space.
bool is_white_space(char32_t character);

}  // namespace pagedinfer
