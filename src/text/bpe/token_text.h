#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagedinfer {

// Converts the spelling of a token to the bytes that it adds in the middle of a text.
struct TokenText {
  bool byte_level = false;                                        // see byte_level.h
  bool byte_fallback = false;                                     // <0x0A> is that byte
  std::vector<std::pair<std::string, std::string>> replace = {};  // from, to; applied first

  // The byte of a token like <0x0A>; nullopt for other tokens.
  std::optional<char> byte_of(std::string_view spelt) const;
  std::string bytes_of(std::string_view spelt) const;
};

}  // namespace pagedinfer
