#include "output/line_window.h"

#include <algorithm>

namespace pagedinfer {

std::string_view LineWindow::line_at(int64_t offset, int64_t file_size, const ReadAt& read) {
  std::string_view line = find(offset);
  if (line.empty()) {
    int64_t size = std::clamp(4 * used_, std::min(kMinBytes, max_bytes_), max_bytes_);
    // Begins a little before the line: lines come in nearly ascending order.
    load(offset - size / 4, size, file_size, read);
    line = find(offset);
    while (line.empty() && begin_ + static_cast<int64_t>(bytes_.size()) < file_size) {
      load(offset, size *= 2, file_size, read);
      line = find(offset);
    }
    used_ = 0;
  }
  used_ += static_cast<int64_t>(line.size());
  return line;
}

std::string_view LineWindow::find(int64_t offset) const {
  const int64_t skipped = offset - begin_;
  if (skipped < 0 || skipped >= static_cast<int64_t>(bytes_.size())) return {};
  return first_line(std::string_view(bytes_).substr(static_cast<size_t>(skipped)));
}

void LineWindow::load(int64_t begin, int64_t size, int64_t file_size, const ReadAt& read) {
  begin_ = std::max(begin, first_offset_);
  const int64_t count = std::min(size, file_size - begin_);
  if (static_cast<int64_t>(bytes_.capacity()) > 2 * max_bytes_) bytes_ = {};  // after a long line
  bytes_.resize(static_cast<size_t>(count));
  read(begin_, bytes_.data(), count);
}

}  // namespace pagedinfer
