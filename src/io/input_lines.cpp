#include "io/input_lines.h"

namespace pagedinfer {

std::optional<InputLine> InputLines::next() {
  while (!choice_.limit || num_records_ < *choice_.limit) {
    const std::optional<LineReader::Line> line = reader_.next();
    if (!line) break;
    const int64_t index = num_records_++;
    if ((line->number - 1) % choice_.shard.count != choice_.shard.index) continue;
    return InputLine{line->text, index, num_taken_++, line->number};
  }
  return std::nullopt;
}

}  // namespace pagedinfer
