#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/shared_list.h"

namespace pagedinfer {

// Whether an answer calls functions: it does not, it may, it must call one of them, or a certain
// one.
enum class ToolChoice : uint8_t { kNone, kAuto, kRequired, kNamed };

// The functions that a line offers. Copies share the names.
struct ToolUse {
  ToolChoice choice = ToolChoice::kNone;
  SharedList<std::string> names = {};  // in the order of the line
  size_t named = 0;                    // with kNamed: the place of that one
  bool several = true;                 // with kAuto: an answer may have several calls
};

// A call of a function in an answer.
struct ToolCall {
  std::string id = {}, name = {};
  std::string arguments = {};  // JSON
};

}  // namespace pagedinfer
