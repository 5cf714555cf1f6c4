#include "io/input_lines.h"

#include <algorithm>

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

std::optional<double> InputLines::estimate() const {
  const std::optional<double> share = reader_.share_read();
  if (!share || *share <= 0 || num_records_ == 0) return std::nullopt;
  double records = static_cast<double>(num_records_) / *share;
  if (choice_.limit) records = std::min(records, static_cast<double>(*choice_.limit));
  const double to_come = records - static_cast<double>(num_records_);
  return static_cast<double>(num_taken_) + to_come / choice_.shard.count;
}

}  // namespace pagedinfer
