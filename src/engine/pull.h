// How the engine asks for its input, line by line.
#pragma once

#include <cstdint>
#include <variant>

#include "core/request.h"

namespace pagedinfer {

// What one line gives: a request to run, or an answer already (an error).
using IntakeItem = std::variant<Request, Completion>;

inline RecordHead& head_of(IntakeItem& item) {
  return std::visit([](auto& content) -> RecordHead& { return content.head; }, item);
}

// What asking for the next item gives: an item, none yet, one whose time of arrival has not come,
// or none any more.
enum class Pull : uint8_t { kItem, kLater, kNotArrived, kEnded };

// What the one who asks waits for: nothing, that the next line is read and tokenized, or that it
// has arrived too.
enum class Wait : uint8_t { kNo, kForLine, kForArrival };

}  // namespace pagedinfer
