#include "io/input_lines.h"

namespace pagedinfer {

std::optional<InputLine> InputLines::take(std::optional<LineReader::Line> (LineReader::*next)()) {
  if (choice_.limit && num_records_ >= *choice_.limit) return std::nullopt;
  const std::optional<LineReader::Line> line = (reader_.*next)();
  if (!line) return std::nullopt;
  const bool taken = (line->number - 1) % choice_.shard.count == choice_.shard.index;
  const InputLine found{line->text, num_records_++, num_taken_, line->number, taken};
  num_taken_ += taken;
  return found;
}

}  // namespace pagedinfer
