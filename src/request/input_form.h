// Recognizes inputs that are neither JSON lines nor tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "settings/config.h"

namespace pagedinfer {

struct InputForm {
  enum class Verdict : uint8_t {
    kLines,      // may be what is expected, valid or not
    kUndecided,  // more bytes are needed
    kOther       // certainly something else
  };
  Verdict verdict;
  std::string text = {};  // with kOther: what was found, what was expected, and how to convert it
};

constexpr size_t kFormBytes = 256 << 10;  // always enough for a verdict; later bytes are ignored

// Judges an input by the end of its name and its first bytes, or all its bytes if `at_end`. A file
// of JSON lines with invalid first lines counts as kLines. A file that begins with an object is
// judged by it, whatever its name is.
InputForm recognize_form(std::string_view name, std::string_view first, bool at_end);
// The same where CSV or TSV is expected, which is not looked at.
InputForm recognize_table(std::string_view name, std::string_view first, bool at_end);

// The format that a file's name tells, also if the file is compressed: JSON lines, unless it tells
// another.
Config::InputFormat format_of_name(std::string_view name);

}  // namespace pagedinfer
