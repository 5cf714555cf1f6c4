#pragma once

#include <string>
#include <string_view>

#include "core/utf8.h"

namespace pagedinfer {

// The first bytes of a UTF-8 text, at most `max_bytes`, cut between characters.
inline std::string_view first_bytes(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  while (max_bytes > 0 && continues_character(text[max_bytes])) --max_bytes;
  return text.substr(0, max_bytes);
}

// A text as a message quotes it: its first 200 bytes, cut between characters, and "..." if there
// are more. Control characters, which a terminal would obey, become '?'.
inline std::string shortened(std::string_view text) {
  constexpr size_t kMaxBytes = 200;
  std::string result(first_bytes(text, kMaxBytes));
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  if (result.size() < text.size()) result += "...";
  return result;
}

}  // namespace pagedinfer
