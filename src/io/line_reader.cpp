#include "io/line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "io/open_file.h"

namespace pagedinfer {
namespace {

constexpr int64_t kReadBytes = LineReader::kMaxShown;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

constexpr size_t kScanBytes = 1 << 20;

// Appends the next bytes of the file to `buffer`, which begins at `offset`; false at its end.
bool read_more(const OpenFile& file, const std::string& path, int64_t offset, std::string& buffer) {
  const size_t held = buffer.size();
  buffer.resize(held + kScanBytes);
  const int64_t from = offset + static_cast<int64_t>(held);
  const ssize_t count = read_at(file.fd, from, buffer.data() + held, kScanBytes);
  if (count < 0) throw cannot_read(path, errno);
  buffer.resize(held + static_cast<size_t>(count));
  buffer.reserve(buffer.size() + kLinePadding);
  return count > 0;
}

}  // namespace

LineReader::LineReader(const std::string& path, int stop_fd, int64_t max_line_bytes,
                       std::optional<char> delimiter)
    : bytes_(path, stop_fd), max_line_bytes_(max_line_bytes) {
  if (delimiter) rows_.emplace(*delimiter);
  resize(kReadBytes);
}

std::optional<LineReader::Line> LineReader::next() {
  for (;;) {
    if (const std::optional<Line> line = next_ready()) return line;
    if (at_end_) return std::nullopt;
    at_end_ = !refill();
  }
}

bool LineReader::skip_mark() {
  if (!at_start_) return true;
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  const std::string_view first(buffer_.get() + begin_, static_cast<size_t>(end_ - begin_));
  if (!at_end_ && first.size() < kMark.size() && kMark.starts_with(first)) return false;
  if (first.starts_with(kMark)) scanned_ = begin_ += std::ssize(kMark);
  at_start_ = false;
  return true;
}

const char* LineReader::find_end() {
  const char *const begin = buffer_.get() + scanned_, *const end = buffer_.get() + end_;
  if (rows_) return rows_->find_end(begin, end);
  return static_cast<const char*>(std::memchr(begin, '\n', static_cast<size_t>(end_ - scanned_)));
}

std::optional<LineReader::Line> LineReader::next_ready() {
  if (!skip_mark()) return std::nullopt;
  for (;;) {
    char* const data = buffer_.get();
    const char* const newline = find_end();
    if (newline == nullptr && (!at_end_ || begin_ == end_)) {
      scanned_ = end_;
      return std::nullopt;
    }

    const int64_t stop = newline != nullptr ? newline - data : end_;
    std::string_view text(data + begin_, static_cast<size_t>(stop - begin_));
    begin_ = scanned_ = newline != nullptr ? stop + 1 : end_;
    const int64_t number = ++number_;
    if (rows_) number_ += rows_->take_num_inside();
    if (text.ends_with('\r')) text.remove_suffix(1);
    text = text.substr(0, static_cast<size_t>(max_line_bytes_ + 1));
    const bool too_long = static_cast<int64_t>(text.size()) > max_line_bytes_;
    const bool is_skipped = rows_ ? text.empty() : is_blank(text);
    if (too_long || !is_skipped) return Line{text, number};
  }
}

void LineReader::show(const std::function<bool(std::string_view first, bool at_end)>& judge) {
  for (;;) {
    const std::string_view first(buffer_.get(), static_cast<size_t>(end_));
    if (judge(first, at_end_) || at_end_ || end_ >= kMaxShown) break;
    // The writer of a pipe may wait for the answer to its first line.
    if (first.find('\n') != first.npos && !bytes_.has_more_soon()) break;
    at_end_ = !refill();
  }
  scanned_ = begin_;
}

bool LineReader::refill() {
  make_room();
  const int64_t count = bytes_.read(buffer_.get() + end_, std::min(capacity_ - end_, kReadBytes));
  end_ += count;
  if (bytes_.stopped()) begin_ = end_ = scanned_ = 0;  // drops an incomplete line
  return count > 0;
}

void LineReader::make_room() {
  // Keeps only the beginning of a line beyond the limit: limit + 1 bytes, a byte-order mark (3),
  // which show() has read and next() will skip, and a \r.
  end_ = std::min(end_, begin_ + max_line_bytes_ + 5);

  const int64_t unread = end_ - begin_;
  std::memmove(buffer_.get(), buffer_.get() + begin_, static_cast<size_t>(unread));
  begin_ = 0;
  scanned_ = end_ = unread;
  if (unread == capacity_) {
    resize(2 * capacity_);
  } else if (capacity_ > kReadBytes && unread < kReadBytes / 2) {
    resize(kReadBytes);
  }
}

void LineReader::resize(int64_t capacity) {
  void* const memory = std::realloc(buffer_.get(), static_cast<size_t>(capacity + kLinePadding));
  if (memory == nullptr) {
    throw Error(
        fmt::format("{}: line {}: no memory for {} bytes", bytes_.name(), number_ + 1, capacity));
  }
  static_cast<void>(buffer_.release());
  buffer_.reset(static_cast<char*>(memory));
  capacity_ = capacity;
}

int64_t scan_lines(const std::string& path, int64_t begin,
                   const std::function<bool(std::string_view line, int64_t offset)>& take) {
  if (!file_exists(path)) return 0;
  const OpenFile file(path);
  std::string buffer;  // the file from `begin` on
  size_t searched = 0;
  while (read_more(file, path, begin, buffer)) {
    size_t done = 0;
    for (;;) {
      const size_t end = buffer.find('\n', std::max(done, searched));
      if (end == std::string::npos) break;
      const std::string_view line = std::string_view(buffer).substr(done, end + 1 - done);
      const int64_t offset = begin + static_cast<int64_t>(done);
      if (line.find('\0') != std::string_view::npos) return offset;
      if (!take(line, offset)) return offset + static_cast<int64_t>(line.size());
      done = end + 1;
    }
    buffer.erase(0, done);
    begin += static_cast<int64_t>(done);
    searched = buffer.size();
  }
  return begin;
}

}  // namespace pagedinfer
