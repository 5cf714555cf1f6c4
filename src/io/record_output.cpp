#include "io/record_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/check.h"

namespace pagedinfer {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kSmallestWindow = 4 << 10, kLargestWindow = 1 << 20;

// The line at the start of `text` with its end, or "" if it has none.
std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n') + 1); }

}  // namespace

int64_t WaitingRecords::add(std::string_view line) {
  const int64_t place = file_.size();
  file_.append(line);
  return place;
}

std::string_view WaitingRecords::line_at(int64_t place) {
  const int64_t unflushed = place - file_.flushed();
  if (unflushed >= 0) return first_line(file_.pending().substr(static_cast<size_t>(unflushed)));

  std::string_view line;
  const auto look = [&] {
    const int64_t skipped = place - window_begin_;
    if (skipped < 0 || skipped >= static_cast<int64_t>(window_.size())) return;
    line = first_line(std::string_view(window_).substr(static_cast<size_t>(skipped)));
  };
  look();
  if (line.empty()) {
    // Records end in nearly the order they are asked for: a large window serves many, those a
    // little before this one too. Where it served few the next one is smaller.
    int64_t size = std::clamp(4 * window_used_, kSmallestWindow, kLargestWindow);
    load(place - size / 4, size);
    for (look(); line.empty(); look()) load(place, size *= 2);
    window_used_ = 0;
  }
  window_used_ += static_cast<int64_t>(line.size());
  return line;
}

void WaitingRecords::load(int64_t place, int64_t size) {
  window_begin_ = std::max<int64_t>(place, 0);
  const int64_t end = std::min(window_begin_ + size, file_.flushed());
  if (static_cast<int64_t>(window_.capacity()) > 2 * kLargestWindow) window_ = {};
  window_.resize(static_cast<size_t>(end - window_begin_));
  file_.read_at(window_begin_, window_.data(), end - window_begin_);
}

void WaitingRecords::clear() {
  window_.clear();
  file_.clear();
}

// The path of the records that wait, which must be free.
std::string RecordOutput::claim(const std::string& path, bool overwrite) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (path == "-" || (fs::exists(status) && !fs::is_regular_file(status))) return "";
  const std::string part = path + ".part";
  if (!overwrite && fs::exists(fs::symlink_status(part, error))) {
    throw Error(fmt::format(
        "{}: the file exists, left by a run that did not end; --overwrite discards it", part));
  }
  return part;
}

RecordOutput::RecordOutput(const std::string& path, Order order, bool overwrite)
    : order_(order),
      part_path_(claim(path, overwrite)),
      output_(path, overwrite ? OutputFile::Existing::kReplace : OutputFile::Existing::kRefuse) {
  std::error_code absent;
  if (!part_path_.empty()) fs::remove(part_path_, absent);
}

void RecordOutput::append(int64_t index, std::string_view record) {
  CHECK(record.ends_with('\n') && record.find('\n') == record.size() - 1);
  ++num_appended_;
  if (order_ == Order::kCompletion) return output_.append(record);

  CHECK(index >= next_);
  const auto turns = static_cast<size_t>(index - next_);
  if (places_.size() <= turns) places_.resize(turns + 1, -1);
  CHECK(places_[turns] == -1);
  if (turns > 0) {
    places_[turns] = waiting().add(record);
    ++num_waiting_;
    return;
  }
  output_.append(record);
  places_.pop_front();
  ++next_;
  deliver_waiting();
}

void RecordOutput::deliver_waiting() {
  while (!places_.empty() && places_.front() != -1) {
    output_.append(waiting_->line_at(places_.front()));
    places_.pop_front();
    ++next_;
    --num_waiting_;
  }
}

void RecordOutput::flush() {
  output_.flush();
  if (!waiting_) return;
  // Only now: what waited must be in the output before it goes from the other file.
  if (num_waiting_ == 0) waiting_->clear();
  waiting_->flush();
}

void RecordOutput::finish() {
  CHECK(places_.empty());
  output_.close();
  waiting_.reset();
  std::error_code absent;
  if (!part_path_.empty()) fs::remove(part_path_, absent);
}

WaitingRecords& RecordOutput::waiting() {
  if (!waiting_) {
    waiting_.emplace(part_path_.empty() ? OutputFile::temporary()
                                        : OutputFile(part_path_, OutputFile::Existing::kRefuse));
  }
  return *waiting_;
}

}  // namespace pagedinfer
