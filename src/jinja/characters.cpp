#include "jinja/characters.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "core/utf8.h"
#include "text/unicode/unicode_classes.h"

namespace pagedinfer::jinja {
namespace {

using utf8proc_char = utf8proc_int32_t;

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_char>(c));
}

bool is_any(char32_t c, std::initializer_list<utf8proc_category_t> categories) {
  return std::ranges::find(categories, category(c)) != categories.end();
}

// What is several characters in upper or title case; utf8proc knows one of each.
struct SpecialCase {
  char32_t character;
  const char *upper, *title;
};
constexpr std::array kSpecialCases = std::to_array<SpecialCase>({
    {0xDF, "SS", "Ss"},
    {0x149, "\u02BCN", "\u02BCN"},
    {0x1F0, "J\u030C", "J\u030C"},
    {0x390, "\u0399\u0308\u0301", "\u0399\u0308\u0301"},
    {0x3B0, "\u03A5\u0308\u0301", "\u03A5\u0308\u0301"},
    {0x587, "\u0535\u0552", "\u0535\u0582"},
    {0x1E96, "H\u0331", "H\u0331"},
    {0x1E97, "T\u0308", "T\u0308"},
    {0x1E98, "W\u030A", "W\u030A"},
    {0x1E99, "Y\u030A", "Y\u030A"},
    {0x1E9A, "A\u02BE", "A\u02BE"},
    {0xFB00, "FF", "Ff"},
    {0xFB01, "FI", "Fi"},
    {0xFB02, "FL", "Fl"},
    {0xFB03, "FFI", "Ffi"},
    {0xFB04, "FFL", "Ffl"},
    {0xFB05, "ST", "St"},
    {0xFB06, "ST", "St"},
});

const SpecialCase* special_case(char32_t c) {
  const auto* const found = std::ranges::find(kSpecialCases, c, &SpecialCase::character);
  return found == kSpecialCases.end() ? nullptr : found;
}

}  // namespace

bool is_python_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

std::string_view strip_left(std::string_view text) {
  while (!text.empty()) {
    const size_t size = utf8_size(text.front());
    if (!is_python_space(utf8_character(text.substr(0, size)))) break;
    text.remove_prefix(size);
  }
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    const size_t begin = character_begin(text, text.size());
    if (!is_python_space(utf8_character(text.substr(begin)))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

bool is_letter(char32_t c) {
  return is_any(c, {UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT,
                    UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_LO});
}
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) {
  // Of the numbers of category No these are digits: superscripts, subscripts, circled.
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
         (c >= 0x2488 && c <= 0x2490) || (c >= 0x24F5 && c <= 0x24FD) || c == 0x24EA ||
         c == 0x24FF || (c >= 0x2776 && c <= 0x277E) || (c >= 0x2780 && c <= 0x2788) ||
         (c >= 0x278A && c <= 0x2792);
}
bool is_numeric(char32_t c) {
  return is_any(c, {UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_NO});
}
bool is_word(char32_t c) { return is_letter(c) || is_numeric(c) || c == '_'; }
bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA ||
         utf8proc_islower(static_cast<utf8proc_char>(c)) != 0;
}
bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU ||
         utf8proc_isupper(static_cast<utf8proc_char>(c)) != 0;
}
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_printable(char32_t c) {
  return c == ' ' || !is_any(c, {UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_CS,
                                 UTF8PROC_CATEGORY_CO, UTF8PROC_CATEGORY_CN, UTF8PROC_CATEGORY_ZL,
                                 UTF8PROC_CATEGORY_ZP, UTF8PROC_CATEGORY_ZS});
}
bool may_start_name(char32_t c) {
  return c == '_' || is_letter(c) || category(c) == UTF8PROC_CATEGORY_NL;
}
bool may_continue_name(char32_t c) {
  return may_start_name(c) || is_any(c, {UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_MN,
                                         UTF8PROC_CATEGORY_MC, UTF8PROC_CATEGORY_PC});
}

void append_lower(std::string& text, char32_t c) {
  if (c == 0x130) {
    text += "i\u0307";
  } else {
    append_utf8(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_char>(c))));
  }
}
void append_upper(std::string& text, char32_t c) {
  if (const SpecialCase* special = special_case(c)) {
    text += special->upper;
  } else {
    append_utf8(text, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_char>(c))));
  }
}
void append_title(std::string& text, char32_t c) {
  if (const SpecialCase* special = special_case(c)) {
    text += special->title;
  } else {
    append_utf8(text, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_char>(c))));
  }
}
void append_folded(std::string& text, char32_t c) {
  std::array<utf8proc_char, 8> folded;
  int boundary = 0;
  const auto size = utf8proc_decompose_char(static_cast<utf8proc_char>(c), folded.data(),
                                            static_cast<utf8proc_ssize_t>(folded.size()),
                                            UTF8PROC_CASEFOLD, &boundary);
  for (utf8proc_ssize_t i = 0; i < size; ++i) {
    append_utf8(text, static_cast<char32_t>(folded[static_cast<size_t>(i)]));
  }
}

std::string escape_of(char32_t c) {
  const auto code = static_cast<uint32_t>(c);
  return code < 0x100     ? fmt::format("\\x{:02x}", code)
         : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                          : fmt::format("\\U{:08x}", code);
}

bool is_cased(char32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }
bool is_case_ignorable(char32_t c) {
  return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2019 ||
         is_any(c, {UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME, UTF8PROC_CATEGORY_CF,
                    UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_SK});
}

size_t character_offset(std::string_view text, size_t i) {
  size_t at = 0;
  while (i > 0 && at < text.size()) {
    // A block of at most `i` bytes has no more than `i` characters.
    const size_t size = std::min({i, text.size() - at, size_t{4096}});
    i -= std::min(static_cast<size_t>(num_characters(text.substr(at, size))), i);
    at += size;
    while (at < text.size() && continues_character(text[at])) ++at;
  }
  return at;
}

}  // namespace pagedinfer::jinja
