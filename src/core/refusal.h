#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace pagedinfer
