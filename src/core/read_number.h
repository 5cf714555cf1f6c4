#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace pagedinfer {

// The number that the whole text spells, as std::from_chars reads it. nullopt if the text is not a
// number, or if T cannot hold it.
template <class T>
std::optional<T> read_number(std::string_view text) {
  T number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace pagedinfer
