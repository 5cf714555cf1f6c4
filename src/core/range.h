// Ranges of numbers, and how a message names them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>

namespace pagedinfer {

inline constexpr int64_t kMaxCount = std::numeric_limits<int>::max();

// The range includes `from` unless `above` is set, and `to` unless `below` is set.
struct NumberRange {
  double from, to;
  bool above = false, below = false;

  // NaN is in no range. A number that a float rounds to `from` counts as `from`.
  constexpr bool contains(double number) const {
    return number >= from && number <= to && !(above && static_cast<float>(number) <= from) &&
           !(below && number >= to);
  }
};

struct IntegerRange {
  int64_t from, to;

  constexpr bool contains(int64_t number) const { return number >= from && number <= to; }
};

// The range as a message names what was expected.
inline std::string text_of(NumberRange range) {
  return fmt::format("a number {} {} {} {}", range.above ? "above" : "from", range.from,
                     range.above || range.below ? (range.below ? "to below" : "and at most") : "to",
                     range.to);
}
inline std::string text_of(IntegerRange range) {
  return fmt::format("an integer from {} to {}", range.from, range.to);
}

}  // namespace pagedinfer
