#pragma once

#include <string>
#include <string_view>

namespace pagedinfer {

// The first bytes of a text in UTF-8, `most` of them or a few less: whole characters.
inline std::string_view first_bytes(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most);
}

// Text that was found, as a message quotes it: its first 200 bytes, in whole characters, and
// "..." if there are more. A control character, which a terminal would obey, is a '?'.
inline std::string shortened(std::string_view text) {
  constexpr size_t kMostBytes = 200;
  std::string result(first_bytes(text, kMostBytes));
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  if (result.size() < text.size()) result += "...";
  return result;
}

}  // namespace pagedinfer
