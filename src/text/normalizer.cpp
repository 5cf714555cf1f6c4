#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/check.h"
#include "text/utf8.h"

namespace pagedinfer {
namespace {

// Whether the text is in canonical composition already for having no character that could be
// changed or could change another: those are U+0300 and above.
bool is_simple(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0xCC; });
}

int combining_class(utf8proc_int32_t character) {
  return utf8proc_get_property(character)->combining_class;
}

// Canonical decomposition in canonical order. The library's own sorts by swapping neighbours,
// which takes hours for a megabyte of accents.
std::vector<utf8proc_int32_t> decompose(std::string_view text) {
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  size_t marks = 0;  // where the marks that end `characters` begin
  const auto sort_marks = [&] {
    std::stable_sort(characters.begin() + static_cast<ptrdiff_t>(marks), characters.end(),
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
  };
  for (size_t i = 0, size = 1; i < text.size(); i += size) {
    size = utf8_size(text[i]);
    std::array<utf8proc_int32_t, 16> parts;  // the longest has 4
    int boundary = 0;
    const auto n = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(utf8_character(text.substr(i, size))), parts.data(),
        static_cast<utf8proc_ssize_t>(parts.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE), &boundary);
    CHECK(n >= 0 && n <= static_cast<utf8proc_ssize_t>(parts.size()));
    for (const auto c : std::span(parts).first(static_cast<size_t>(n))) {
      if (combining_class(c) == 0) {
        sort_marks();
        marks = characters.size() + 1;
      }
      characters.push_back(c);
    }
  }
  if (marks < characters.size()) sort_marks();
  return characters;
}

std::string to_nfc(std::string text) {
  if (is_simple(text)) return text;
  std::vector<utf8proc_int32_t> characters = decompose(text);
  const auto n =
      utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  CHECK(n >= 0);
  text.clear();
  for (const auto c : std::span(characters).first(static_cast<size_t>(n)))
    append_utf8(text, static_cast<char32_t>(c));
  return text;
}

}  // namespace

NormalizerStep nfc() { return to_nfc; }

NormalizerStep replace_all(std::string from, std::string to) {
  return [from = std::move(from), to = std::move(to)](std::string text) {
    size_t at = text.find(from), done = 0;
    if (at == std::string::npos) return text;
    std::string result;
    for (; at != std::string::npos; at = text.find(from, done)) {
      result.append(text, done, at - done).append(to);
      done = at + from.size();
    }
    return result.append(text, done);
  };
}

NormalizerStep prepend(std::string prefix) {
  return [prefix = std::move(prefix)](std::string text) {
    return text.empty() ? text : prefix + text;
  };
}

}  // namespace pagedinfer
