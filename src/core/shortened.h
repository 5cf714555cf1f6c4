#pragma once

#include <string>
#include <string_view>

namespace pagedinfer {

// Text that was found, as a message quotes it: its first 200 bytes, in whole characters, and
// "..." if there are more. A control character, which a terminal would obey, is a '?'.
inline std::string shortened(std::string_view text) {
  constexpr size_t kMostBytes = 200;
  size_t end = text.size();
  if (end > kMostBytes) {
    end = kMostBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  }
  std::string result(text.substr(0, end));
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  if (end < text.size()) result += "...";
  return result;
}

}  // namespace pagedinfer
