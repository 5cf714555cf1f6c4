#include "io/line_scan.h"

#include <algorithm>
#include <cerrno>

#include "core/error.h"
#include "io/line_reader.h"
#include "io/open_file.h"

namespace pagedinfer {

namespace {

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
