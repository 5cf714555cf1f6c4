#include "io/input_lines.h"

namespace pagedinfer {

std::optional<InputLine> InputLines::next() {
  if (choice_.limit && num_records_ >= *choice_.limit) return std::nullopt;
  const std::optional<LineReader::Line> line = reader_.next();
  if (!line) return std::nullopt;
  return InputLine{line->text, num_records_++, num_taken_++, line->number};
}

}  // namespace pagedinfer
