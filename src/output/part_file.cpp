#include "output/part_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/error.h"
#include "core/refusal.h"
#include "io/line_reader.h"

namespace pagedinfer {

namespace {

constexpr int64_t kMaxWindow = 1 << 20;

constexpr std::string_view kVersionKey = "version";

// Checks the state version among the settings of a file and removes it from them.
void check_version(const std::string& path, std::string_view way_out, Fingerprint& fingerprint) {
  std::string found = "none";
  std::erase_if(fingerprint.settings, [&](const auto& setting) {
    if (setting.first != kVersionKey) return false;
    found = setting.second;
    return true;
  });
  if (found == kStateVersion) return;
  throw Error(fmt::format(
      "{}: written by another version of the program (state version {}, expected {}), whose "
      "records differ; {}",
      path, shortened(found), kStateVersion, way_out));
}

constexpr size_t kHashSize = 16;
constexpr char kRecord = ' ', kReceipt = '@';  // the byte after the hash

}  // namespace

std::string part_header(const Fingerprint& fingerprint, const StateMark& mark) {
  Fingerprint with_version = {{{std::string(kVersionKey), std::string(kStateVersion)}}};
  for (const auto& [name, value] : fingerprint.settings) with_version.set(name, value);
  return mark_line(mark) + mark_line({}) + fingerprint_line(with_version);
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
    throw Error(
        path +
        ": lines 1 and 2: both are damaged, expected one that says how far the input was read");
  }
  header.slot = !marks[0] || (marks[1] && marks[1]->serial > marks[0]->serial) ? 1 : 0;
  header.mark = *marks[header.slot];
  return header;
}

uint64_t record_hash(std::string_view record) { return hash_bytes(0, record); }

std::string waiting_line(std::string_view record) {
  return fmt::format("{:016x}{}{}", record_hash(record), kRecord, record);
}

std::string receipt_line(int64_t turn, std::string_view record) {
  return fmt::format("{:016x}{}{}\n", record_hash(record), kReceipt, turn);
}

std::optional<PartLine> parse_part_line(std::string_view line) {
  if (line.size() < kHashSize + 2) return std::nullopt;
  PartLine parsed;
  const char* const end_of_hash = line.data() + kHashSize;
  const auto hash = std::from_chars(line.data(), end_of_hash, parsed.hash, 16);
  if (hash.ec != std::errc() || hash.ptr != end_of_hash) return std::nullopt;
  const std::string_view rest = line.substr(kHashSize + 1);
  if (*end_of_hash == kRecord) {
    parsed.record = rest;
    return parsed;
  }
  const auto turn = std::from_chars(rest.data(), rest.data() + rest.size(), parsed.turn);
  const bool is_turn =
      turn.ec == std::errc() && turn.ptr + 1 == rest.data() + rest.size() && parsed.turn >= 0;
  return *end_of_hash == kReceipt && is_turn ? std::optional(parsed) : std::nullopt;
}

PartFile::PartFile(OutputFile file, const PartHeader& header)
    : file_(std::move(file)),
      header_bytes_(header.bytes),
      mark_(header.mark),
      slot_(header.slot),
      window_(header.bytes, kMaxWindow) {}

int64_t PartFile::add(std::string_view record) {
  const int64_t offset = file_.size();
  file_.append(waiting_line(record));
  return offset;
}

void PartFile::add_receipt(int64_t turn, std::string_view record) {
  file_.append(receipt_line(turn, record));
}

std::string_view PartFile::record_at(int64_t offset) {
  const std::optional<PartLine> line = parse_part_line(line_at(offset));
  if (line && !line->is_receipt() && record_hash(line->record) == line->hash) return line->record;
  throw Error(
      fmt::format("{}: at byte {}: the record was changed; this is not what the run has written",
                  file_.name(), offset));
}

std::string_view PartFile::line_at(int64_t offset) {
  const int64_t unflushed = offset - file_.flushed();
  if (unflushed >= 0) return first_line(file_.pending().substr(static_cast<size_t>(unflushed)));
  return window_.line_at(offset, file_.flushed(), [&](int64_t begin, char* data, int64_t size) {
    file_.read_at(begin, data, size);
  });
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
