// Characters as Python's str sees them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "text/unicode/utf8.h"

namespace pagedinfer::jinja {

// str.isspace() of a character.
bool is_python_space(char32_t character);

// The text without the white space at its left or right end.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

// Categories of Unicode.
bool is_letter(char32_t character);   // str.isalpha()
bool is_decimal(char32_t character);  // str.isdecimal()
bool is_digit(char32_t character);    // str.isdigit()
bool is_numeric(char32_t character);  // str.isnumeric()
bool is_word(char32_t character);     // \w of a regular expression
bool is_lower(char32_t character);
bool is_upper(char32_t character);
bool is_title(char32_t character);
bool is_printable(char32_t character);  // repr() does not escape it
bool may_start_name(char32_t character);
bool may_continue_name(char32_t character);

// A character as an escape of a string literal: \x80, \u0100 or \U00010000.
std::string escape_of(char32_t c);

// The character in another case, which may be several; appended.
void append_lower(std::string& text, char32_t character);
void append_upper(std::string& text, char32_t character);
void append_title(std::string& text, char32_t character);
void append_folded(std::string& text, char32_t character);
// Whether Python changes the case of the characters beside this one: a letter.
bool is_cased(char32_t character);
// Whether the end of a word is looked for behind such a character.
bool is_case_ignorable(char32_t character);

// Calls `act(character, begin, end)` for each character of UTF-8 text.
template <class Act>
void for_characters(std::string_view text, Act act) {
  for (size_t i = 0; i < text.size();) {
    const size_t size = utf8_size(text[i]);
    act(utf8_character(text.substr(i, size)), i, i + size);
    i += size;
  }
}

// The byte offset of the character with index `i`, or the size of the text if there is none.
size_t character_offset(std::string_view text, size_t i);

}  // namespace pagedinfer::jinja
