// What an input is that is not made of JSON lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pagedinfer {

struct InputForm {
  enum class Verdict : uint8_t {
    kLines,      // may be JSON lines, be they good or bad
    kUndecided,  // more bytes are needed to tell
    kOther       // is certainly something else
  };
  Verdict verdict;
  std::string text = {};  // of kOther: what it is, what was expected and what helps
};

constexpr size_t kFormBytes = 256 << 10;  // so many always suffice, and more are not looked at

// Judges the first bytes of an input, which `at_end` are all there are. A file of JSON lines whose
// first lines are bad ones is none of the other forms.
InputForm recognize_form(std::string_view first, bool at_end);

}  // namespace pagedinfer
