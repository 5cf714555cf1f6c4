#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagedinfer {

// How the spelling of a token becomes text, for a token in the middle of a text.
struct TokenText {
  bool byte_level = false;                                        // letters that stand for bytes
  bool byte_fallback = false;                                     // <0x0A> is that byte
  std::vector<std::pair<std::string, std::string>> replace = {};  // before all else

  // The byte that a token like <0x0A> stands for.
  std::optional<char> byte_of(std::string_view spelt) const;
  std::string bytes_of(std::string_view spelt) const;
};

}  // namespace pagedinfer
