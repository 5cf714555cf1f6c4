#include "text/bpe/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/check.h"
#include "text/unicode/utf8.h"

namespace pagedinfer {
namespace {

// Whether the text has only characters below U+0300, which canonical composition does not change.
bool is_simple(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0xCC; });
}

// Characters that Unicode versions after 9 compose or reorder. The reference has version 9 and
// leaves them alone.
struct MarkRange {
  char32_t first, last;
};
constexpr MarkRange kLaterMarks[] = {
    {0x07FD, 0x07FD},   {0x0898, 0x089F},   {0x08CA, 0x08D3},   {0x09FE, 0x09FE},
    {0x0C3C, 0x0C3C},   {0x0D3B, 0x0D3C},   {0x0EBA, 0x0EBA},   {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x10D24, 0x10D27},
    {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42},
    {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1},
    {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF},
};

bool is_later_mark(char32_t c) {
  const MarkRange* range = std::ranges::lower_bound(kLaterMarks, c, {}, &MarkRange::last);
  return range != std::end(kLaterMarks) && range->first <= c;
}

int combining_class(utf8proc_int32_t character) {
  return utf8proc_get_property(character)->combining_class;
}

// Canonical decomposition in canonical order. The library's own function sorts by swapping
// neighbours, which takes hours for a megabyte of accents.
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

void append_composed(std::string_view text, std::string& result) {
  if (is_simple(text)) {
    result += text;
    return;
  }
  std::vector<utf8proc_int32_t> characters = decompose(text);
  const auto n =
      utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  CHECK(n >= 0);
  for (const auto c : std::span(characters).first(static_cast<size_t>(n))) {
    append_utf8(result, static_cast<char32_t>(c));
  }
}

std::string to_nfc(std::string text) {
  if (is_simple(text)) return text;
  const std::string_view view = text;
  std::string result;
  result.reserve(text.size());
  size_t done = 0;
  for (size_t i = 0, size = 1; i < text.size(); i += size) {
    size = utf8_size(text[i]);
    if (size == 1 || !is_later_mark(utf8_character(view.substr(i, size)))) continue;
    append_composed(view.substr(done, i - done), result);
    result += view.substr(i, size);
    done = i + size;
  }
  append_composed(view.substr(done), result);
  return result;
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
