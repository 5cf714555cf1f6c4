#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace pagedinfer {

// Reads lines of a file at given offsets through a window, a buffer that holds a piece of the file.
// The size of a new window is four times the bytes that were read from the last window, within the
// bounds. So lines that are read in nearly ascending order share large windows, and lines in random
// order get small windows.
class LineWindow {
 public:
  // Reads exactly `size` bytes at `offset`, or throws.
  using ReadAt = std::function<void(int64_t offset, char* data, int64_t size)>;

  // A window has at least kMinBytes and, unless a line needs more, at most `max_bytes`. It does not
  // begin before `first_offset`.
  LineWindow(int64_t first_offset, int64_t max_bytes)
      : first_offset_(first_offset), max_bytes_(max_bytes) {}

  // The line at `offset` of a file of `file_size` bytes, with its \n; "" if it has none. Valid
  // until the next call. REQUIRES: offset >= first_offset.
  std::string_view line_at(int64_t offset, int64_t file_size, const ReadAt& read);
  // Forgets the window. REQUIRES: called after the file's bytes have changed.
  void clear() { bytes_.clear(); }

 private:
  static constexpr int64_t kMinBytes = 4 << 10;

  std::string_view find(int64_t offset) const;
  void load(int64_t begin, int64_t size, int64_t file_size, const ReadAt& read);

  int64_t first_offset_, max_bytes_;
  std::string bytes_ = {};
  int64_t begin_ = 0;  // the window's offset in the file
  int64_t used_ = 0;   // bytes of the lines returned from it
};

// The first line of `text` with its \n; "" if it has none.
inline std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n') + 1);
}

}  // namespace pagedinfer
