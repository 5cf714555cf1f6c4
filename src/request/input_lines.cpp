#include "request/input_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "request/input_form.h"

namespace pagedinfer {

static_assert(LineReader::kMaxShown >= static_cast<int64_t>(kFormBytes));

InputLines::InputLines(const std::string& path, const LineChoice& choice, int stop_fd)
    : reader_(path, stop_fd), choice_(choice) {
  if (reader_.is_file()) recognize();
}

void InputLines::recognize() {
  reader_.show([&](std::string_view first, bool at_end) {
    const InputForm form = recognize_form(reader_.name(), first, at_end);
    if (form.verdict == InputForm::Verdict::kOther) {
      throw Error(fmt::format("{}: {}", reader_.name(), form.text));
    }
    return form.verdict == InputForm::Verdict::kLines;
  });
}

std::optional<InputLine> InputLines::take(std::optional<LineReader::Line> (LineReader::*read)()) {
  if (choice_.limit && num_records_ >= *choice_.limit) return std::nullopt;
  const std::optional<LineReader::Line> line = (reader_.*read)();
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
