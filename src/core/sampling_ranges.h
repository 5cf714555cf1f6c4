// The values that sampling settings take: the same in a line, as a flag and in
// generation_config.json.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>

namespace pagedinfer {

// Of numbers that are kept as floats. `from` itself is in it unless `above`.
struct NumberRange {
  double from, to;
  bool above = false;

  // NaN is in no range.
  constexpr bool contains(double number) const {
    return number >= from && number <= to && !(above && static_cast<float>(number) <= from);
  }
};

struct IntegerRange {
  int64_t from, to;

  constexpr bool contains(int64_t number) const { return number >= from && number <= to; }
};

// What a message says was expected.
inline std::string text_of(NumberRange range) {
  return range.above ? fmt::format("a number above {} and at most {}", range.from, range.to)
                     : fmt::format("a number from {} to {}", range.from, range.to);
}
inline std::string text_of(IntegerRange range) {
  return fmt::format("an integer from {} to {}", range.from, range.to);
}

inline constexpr int64_t kMaxCount = std::numeric_limits<int>::max();

inline constexpr IntegerRange kMaxTokensRange = {1, kMaxCount};
inline constexpr IntegerRange kMinTokensRange = {0, kMaxCount};
inline constexpr IntegerRange kTopKRange = {-1, kMaxCount};  // 0 and -1 are off
inline constexpr NumberRange kTemperatureRange = {0, 10000};
inline constexpr NumberRange kTopPRange = {0, 1, true};
inline constexpr NumberRange kMinPRange = {0, 1};
inline constexpr NumberRange kRepetitionPenaltyRange = {0.001, 1000};
inline constexpr NumberRange kPresencePenaltyRange = {-2, 2};
inline constexpr NumberRange kFrequencyPenaltyRange = {-2, 2};

}  // namespace pagedinfer
