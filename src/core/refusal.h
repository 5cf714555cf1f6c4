// The parts of a message about what was refused.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/utf8.h"

namespace pagedinfer {

// The one form of a message about a value: "WHERE: found FOUND, expected EXPECTED".
inline std::string refusal(std::string_view where, std::string_view found,
                           std::string_view expected) {
  return fmt::format("{}: found {}, expected {}", where, found.empty() ? "nothing" : found,
                     expected);
}

// The message about a token id that is not in a vocabulary of `vocab` tokens.
inline std::string refusal_of_token(std::string_view where, int64_t token, int64_t vocab) {
  return refusal(where, fmt::format("token id {}", token),
                 fmt::format("one from 0 to {}", vocab - 1));
}

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

// "1 entry", "2 entries".
inline std::string counted(int64_t count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

// 1234567 is "1,234,567".
inline std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  const int first = number < 0 ? 1 : 0;
  for (int at = static_cast<int>(text.size()) - 3; at > first; at -= 3) {
    text.insert(static_cast<size_t>(at), 1, ',');
  }
  return text;
}

}  // namespace pagedinfer
