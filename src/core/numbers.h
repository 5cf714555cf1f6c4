// Numbers: how they are read, and ranges of them as messages name them.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

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

// a / b, rounded up. REQUIRES: a >= 0, b > 0.
template <class A, class B>
constexpr std::common_type_t<A, B> ceil_div(A a, B b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

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
  constexpr bool operator==(const IntegerRange&) const = default;
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
