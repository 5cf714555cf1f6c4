#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/shared_list.h"

namespace pagedinfer {

// Whether an answer calls functions. kNone: it does not. kAuto: it may. kRequired: it must call one
// of them. kNamed: it must call a certain one.
enum class ToolChoice : uint8_t { kNone, kAuto, kRequired, kNamed };

// The functions that a line offers. Copies share the names.
struct ToolUse {
  ToolChoice choice = ToolChoice::kNone;
  SharedList<std::string> names = {};  // in the order of the line
  size_t named = 0;                    // with kNamed: the index of the function in `names`
  bool several = true;                 // with kAuto: an answer may have several calls
};

// A call of a function in an answer.
struct ToolCall {
  std::string id = {}, name = {};
  std::string arguments = {};  // JSON
};

}  // namespace pagedinfer
