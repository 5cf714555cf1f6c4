#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace pagedinfer {

// The one form of a message about a value: "WHERE: found FOUND, expected EXPECTED".
inline std::string refusal(std::string_view where, std::string_view found,
                           std::string_view expected) {
  return fmt::format("{}: found {}, expected {}", where, found.empty() ? "nothing" : found,
                     expected);
}

}  // namespace pagedinfer
