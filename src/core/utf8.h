#pragma once

#include <cstddef>
#include <string_view>

namespace pagedinfer {

// What the first byte of a UTF-8 character determines: the size of the character (0 if no character
// begins with this byte) and the range of its second byte. The ranges exclude overlong forms,
// surrogates and values beyond U+10FFFF; further bytes are 0x80 to 0xBF.
struct Utf8Lead {
  int size;
  unsigned char low = 0x80, high = 0xBF;
};
inline Utf8Lead utf8_lead(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2 || byte > 0xF4) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {4};
}

// The length of the UTF-8 character at the start of `text`; 0 if there is no complete one.
inline int utf8_length(std::string_view text) {
  const auto in_range = [&](size_t i, unsigned char low, unsigned char high) {
    const auto byte = static_cast<unsigned char>(text[i]);
    return byte >= low && byte <= high;
  };
  if (text.empty()) return 0;
  const Utf8Lead lead = utf8_lead(static_cast<unsigned char>(text[0]));
  const auto size = static_cast<size_t>(lead.size);
  if (text.size() < size) return 0;
  if (size > 1 && !in_range(1, lead.low, lead.high)) return 0;
  for (size_t i = 2; i < size; ++i) {
    if (!in_range(i, 0x80, 0xBF)) return 0;
  }
  return lead.size;
}

// Whether a byte belongs to the character that an earlier byte begins.
constexpr bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Where the character that ends at `end` begins. REQUIRES: 0 < `end` <= the size of `text`.
inline size_t character_begin(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && continues_character(text[begin])) --begin;
  return begin;
}

// The characters of `text`. REQUIRES: it is UTF-8.
inline int num_characters(std::string_view text) {
  int count = 0;
  for (const char byte : text) count += !continues_character(byte);
  return count;
}

inline bool is_utf8(std::string_view text) {
  while (const int length = utf8_length(text)) text.remove_prefix(static_cast<size_t>(length));
  return text.empty();
}

}  // namespace pagedinfer
