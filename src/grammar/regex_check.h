#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace pagedinfer {

constexpr size_t kMaxRegexBytes = 8 << 10;
constexpr int kMaxRegexDepth = 32;         // groups within groups
constexpr int64_t kMaxRepetitions = 4096;  // of one character, by all counts around it
// A string of JSON: the library forgets what such a string cannot hold where it repeats more often.
constexpr int64_t kMaxRepetitionsInString = 128;
constexpr int64_t kMaxEmptyRepetitions = 16;  // of a group that may be empty, in {}

// What a regular expression becomes: the right side of a rule in the library's notation of
// grammars, or an expression of the library's for what stands between the quotes of a string of
// JSON.
enum class RegexUse : uint8_t { kRule, kJsonString };

// How many characters a text has.
struct TextLengths {
  int64_t min = 0;
  std::optional<int64_t> max = {};
};

// A regular expression, which the whole text must match, so that the library reads it, and allows
// no text that Python or ECMA-262 would not match: \d, \w, \D and \W are of ASCII, and so are
// classes that exclude \d or \w. The result is ASCII. All that it matches has one of the lengths.
// invalid_form: the library would ignore a part or read it differently, it is beyond the limits, or
// the lengths cannot be written, which takes one repetition of a fixed number of characters in a
// text of a fixed length otherwise. REQUIRES: `regex` is UTF-8.
Result<std::string> rewrite_regex(std::string_view regex, RegexUse use, TextLengths lengths = {});

}  // namespace pagedinfer
