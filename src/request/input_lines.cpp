#include "request/input_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "request/input_form.h"

namespace pagedinfer {

static_assert(LineReader::kMaxShown >= static_cast<int64_t>(kFormBytes));

namespace {

std::optional<char> delimiter_of(const LineChoice& choice) {
  return choice.table ? std::optional(choice.table->delimiter) : std::nullopt;
}

}  // namespace

LineChoice choice_of(const Config& config) {
  using Format = Config::InputFormat;
  LineChoice choice = {.limit = config.limit, .shard = config.shard.value_or(Shard{})};
  const Format format =
      config.input_format == Format::kAuto ? format_of_name(config.input) : config.input_format;
  if (format == Format::kCsv || format == Format::kTsv) {
    choice.table = {format == Format::kCsv ? ',' : '\t', config.json_columns};
  }
  return choice;
}

InputLines::InputLines(const std::string& path, const LineChoice& choice, int stop_fd)
    : reader_(path, stop_fd, kMaxLineBytes, delimiter_of(choice)), choice_(choice) {
  if (reader_.is_file()) recognize();
}

void InputLines::recognize() {
  reader_.show([&](std::string_view first, bool at_end) {
    const InputForm form = choice_.table ? recognize_table(reader_.name(), first, at_end)
                                         : recognize_form(reader_.name(), first, at_end);
    if (form.verdict == InputForm::Verdict::kOther) {
      throw Error(fmt::format("{}: {}", reader_.name(), form.text));
    }
    return form.verdict == InputForm::Verdict::kLines;
  });
  if (choice_.table) has_header(&LineReader::next);
}

bool InputLines::has_header(Read read) {
  if (rows_) return true;
  const std::optional<LineReader::Line> header = (reader_.*read)();
  if (header) {
    rows_.emplace(reader_.name(), header->text, *choice_.table);
  } else if (read == &LineReader::next && !reader_.stopped()) {
    throw Error(reader_.name() + ": is empty, expected a header with the names of columns");
  }
  return rows_.has_value();
}

std::optional<InputLine> InputLines::take(Read read) {
  if (choice_.limit && num_records_ >= *choice_.limit) return std::nullopt;
  if (choice_.table && !has_header(read)) return std::nullopt;
  const std::optional<LineReader::Line> line = (reader_.*read)();
  if (!line) return std::nullopt;
  InputLine found{line->text, num_records_++, num_taken_, line->number};
  const int64_t place = rows_ ? found.index : found.number - 1;
  found.taken = place % choice_.shard.count == choice_.shard.index;
  if (rows_) {
    Result<std::string_view> json = rows_->to_json(line->text);
    if (json) {
      found.text = *json;
    } else {
      found.error = std::move(json.error());
    }
  }
  num_taken_ += found.taken;
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
