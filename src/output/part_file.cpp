#include "output/part_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/error.h"
#include "core/shortened.h"
#include "io/line_scan.h"

namespace pagedinfer {

namespace {

constexpr int64_t kSmallestWindow = 4 << 10, kLargestWindow = 1 << 20;

constexpr std::string_view kVersionKey = "version";

// Takes the version away from what a file holds.
void check_version(const std::string& path, std::string_view way_out, Fingerprint& fingerprint) {
  std::string found = "none";
  std::erase_if(fingerprint.settings, [&](const auto& setting) {
    if (setting.first != kVersionKey) return false;
    found = setting.second;
    return true;
  });
  if (found == kStateVersion) return;
  throw Error(fmt::format(
      "{}: written by another version of the program (state version {}, expected {}), which "
      "computes other records; {}",
      path, shortened(found), kStateVersion, way_out));
}

constexpr size_t kSumSize = 16;
constexpr char kRecord = ' ', kReceipt = '@';  // what stands behind the sum

// The line at the start of `text` with its end, or "" if it has none.
std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n') + 1); }

}  // namespace

std::string part_header(const Fingerprint& fingerprint) {
  Fingerprint with_version = {{{std::string(kVersionKey), std::string(kStateVersion)}}};
  for (const auto& [name, value] : fingerprint.settings) with_version.set(name, value);
  return mark_line({}) + mark_line({}) + fingerprint_line(with_version);
}

std::optional<PartHeader> read_part_header(const std::string& path, std::string_view way_out) {
  PartHeader header;
  std::optional<StateMark> marks[2];
  int num_lines = 0;
  header.bytes = scan_lines(path, 0, [&](std::string_view line, int64_t) {
    if (num_lines < 2) {
      marks[num_lines] = parse_mark(line);
    } else {
      header.fingerprint = parse_fingerprint(path, line);
      check_version(path, way_out, header.fingerprint);
    }
    return ++num_lines < 3;
  });
  if (num_lines < 3) return std::nullopt;
  if (!marks[0] && !marks[1]) {
    throw Error(path + ": lines 1 and 2: expected one that says how far the input was read");
  }
  header.slot = !marks[0] || (marks[1] && marks[1]->serial > marks[0]->serial) ? 1 : 0;
  header.mark = *marks[header.slot];
  return header;
}

uint64_t sum_of(std::string_view record) { return hash_bytes(0, record); }

std::string waiting_line(std::string_view record) {
  return fmt::format("{:016x}{}{}", sum_of(record), kRecord, record);
}

std::string receipt_line(int64_t turn, std::string_view record) {
  return fmt::format("{:016x}{}{}\n", sum_of(record), kReceipt, turn);
}

std::optional<PartLine> parse_part_line(std::string_view line) {
  if (line.size() < kSumSize + 2) return std::nullopt;
  PartLine parsed;
  const char* const end_of_sum = line.data() + kSumSize;
  const auto sum = std::from_chars(line.data(), end_of_sum, parsed.sum, 16);
  if (sum.ec != std::errc() || sum.ptr != end_of_sum) return std::nullopt;
  const std::string_view rest = line.substr(kSumSize + 1);
  if (*end_of_sum == kRecord) {
    parsed.record = rest;
    return parsed;
  }
  const auto turn = std::from_chars(rest.data(), rest.data() + rest.size(), parsed.turn);
  const bool is_turn =
      turn.ec == std::errc() && turn.ptr + 1 == rest.data() + rest.size() && parsed.turn >= 0;
  return *end_of_sum == kReceipt && is_turn ? std::optional(parsed) : std::nullopt;
}

PartFile::PartFile(OutputFile file, const PartHeader& header)
    : file_(std::move(file)), header_bytes_(header.bytes), mark_(header.mark), slot_(header.slot) {}

int64_t PartFile::add(std::string_view record) {
  const int64_t place = file_.size();
  file_.append(waiting_line(record));
  return place;
}

void PartFile::add_receipt(int64_t turn, std::string_view record) {
  file_.append(receipt_line(turn, record));
}

std::string_view PartFile::record_at(int64_t place) {
  const std::optional<PartLine> line = parse_part_line(line_at(place));
  if (line && !line->is_receipt() && sum_of(line->record) == line->sum) return line->record;
  throw Error(fmt::format(
      "{}: at byte {}: not the record that the run has written there; somebody has changed it",
      file_.name(), place));
}

std::string_view PartFile::line_at(int64_t place) {
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
    const auto sees_end = [&] {
      return window_begin_ + static_cast<int64_t>(window_.size()) == file_.flushed();
    };
    for (look(); line.empty() && !sees_end(); look()) load(place, size *= 2);
    window_used_ = 0;
  }
  window_used_ += static_cast<int64_t>(line.size());
  return line;
}

void PartFile::load(int64_t place, int64_t size) {
  window_begin_ = std::max(place, header_bytes_);
  const int64_t end = std::min(window_begin_ + size, file_.flushed());
  if (static_cast<int64_t>(window_.capacity()) > 2 * kLargestWindow) window_ = {};
  window_.resize(static_cast<size_t>(end - window_begin_));
  file_.read_at(window_begin_, window_.data(), end - window_begin_);
}

void PartFile::set_mark(const RunMark& mark) {
  if (mark.lines > mark_.input.lines) write({mark, mark_.output});
}

void PartFile::set_output(const OutputPrefix& output) {
  if (output != mark_.output) write({mark_.input, output});
}

void PartFile::write(StateMark mark) {
  if (header_bytes_ == 0) return;
  mark.serial = mark_.serial + 1;
  file_.write_at((1 - slot_) * kMarkBytes, mark_line(mark));
  slot_ = 1 - slot_;
  mark_ = mark;
}

void PartFile::clear() {
  window_.clear();
  file_.cut(header_bytes_);
}

}  // namespace pagedinfer
