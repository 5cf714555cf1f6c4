// How the engine asks for its input, line by line.
#pragma once

#include <cstdint>
#include <variant>

#include "core/request.h"

namespace pagedinfer {

// What one line gives: a request to run, or an answer already (an error).
using IntakeItem = std::variant<Request, Completion>;

// What asking for the next item gives: an item, none now, or none any more.
enum class Pull : uint8_t { kItem, kLater, kEnded };

}  // namespace pagedinfer
