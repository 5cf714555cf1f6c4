#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/input_bytes.h"

namespace pagedinfer {

// A longer line is not read as a whole; RequestParser answers it with an error.
constexpr int64_t kMaxLineBytes = int64_t{128} << 20;

// Readable bytes behind a line: what simdjson asks for.
constexpr int64_t kLinePadding = 64;

// The lines of a file or of standard input, one at a time, in memory that depends on the
// longest line only while it is being read. Knows nothing of JSON.
class LineReader {
 public:
  struct Line {
    std::string_view text;  // kLinePadding readable bytes follow it
    int64_t number;         // in the file, from 1
  };

  // `path` is a file or a pipe, packed by gzip or not, or "-" for standard input. When `stop_fd`
  // is given and becomes readable, a wait for input ends and the input with it. Throws Error if
  // it cannot be opened.
  explicit LineReader(const std::string& path, int stop_fd = -1,
                      int64_t max_line_bytes = kMaxLineBytes);

  // The next line with anything but white space in it, without its end (\n or \r\n) and without
  // a byte-order mark at the start of the file; nothing at the end of the input. Of a line
  // beyond the limit the first `max_line_bytes` + 1 bytes. The text is valid until the next
  // call. Throws Error when the input cannot be read; the lines before were complete.
  std::optional<Line> next();
  // The same, but nothing where the input would have to be read for it: that may take long.
  std::optional<Line> next_ready();
  // What share of a regular file the lines so far make up; nothing of other inputs.
  std::optional<double> share_read() const { return bytes_.share_read(end_ - begin_); }
  // Shows the first bytes, and whether they are all, until `judge` says that it has seen enough or
  // there are kMaxShown of them. Waits for a whole line, but not for more. REQUIRES: no line was
  // taken.
  static constexpr int64_t kMaxShown = 256 << 10;
  void show(const std::function<bool(std::string_view first, bool at_end)>& judge);
  bool is_file() const { return bytes_.is_file(); }
  const std::string& name() const { return bytes_.name(); }
  // Whether somebody has written to the file since it was opened.
  bool has_changed() const { return bytes_.has_changed(); }

 private:
  // Reads more behind what is unread; false at the end of the input.
  bool refill();
  void make_room();
  void resize(int64_t capacity);

  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  InputBytes bytes_;
  const int64_t max_line_bytes_;
  std::unique_ptr<char, Free> buffer_;
  int64_t capacity_ = 0;         // of the buffer, the padding not counted
  int64_t begin_ = 0, end_ = 0;  // what was read and not yet returned
  int64_t scanned_ = 0;          // in [begin_, scanned_) there is no \n
  int64_t number_ = 0;           // of the last line
  bool at_start_ = true, at_end_ = false;
};

}  // namespace pagedinfer
