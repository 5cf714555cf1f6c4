// How the engine asks for its input, line by line.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "core/request.h"
#include "grammar/compiled_form.h"

namespace pagedinfer {

// The result of one line: what to compute, or an answer, which is an error.
using IntakeItem = std::variant<PreparedLine, Completion>;

// A line as the engine takes it.
struct EngineLine {
  IntakeItem item = {};
  // The compiled form of the line's answers; null if they have no form.
  std::shared_ptr<const CompiledForm> form = {};
};

inline RecordHead& head_of(IntakeItem& item) {
  return std::visit([](auto& content) -> RecordHead& { return content.head; }, item);
}

// The result of asking for the next item. kItem: an item. kLater: none is ready yet. kNotArrived:
// the next item's time of arrival has not come. kEnded: there are no more items.
enum class Pull : uint8_t { kItem, kLater, kNotArrived, kEnded };

// What the caller waits for. kNo: nothing. kForLine: the next line is read and tokenized.
// kForArrival: its time of arrival has come too.
enum class Wait : uint8_t { kNo, kForLine, kForArrival };

}  // namespace pagedinfer
