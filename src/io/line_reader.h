#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/input_bytes.h"
#include "io/row_scan.h"

namespace pagedinfer {

// A longer line is truncated; RequestParser answers it with an error record.
constexpr int64_t kMaxLineBytes = int64_t{128} << 20;

// Readable bytes behind a line, as simdjson requires (SIMDJSON_PADDING).
constexpr int64_t kLinePadding = 64;

// Reads the lines of a file or of standard input one at a time, or its rows of CSV, whose quoted
// cells may hold ends of lines. The buffer grows for a long line and shrinks after it. Knows
// nothing of JSON.
class LineReader {
 public:
  struct Line {
    std::string_view text;  // kLinePadding readable bytes follow it
    int64_t number;         // in the file, from 1; of a row, the line where it begins
  };

  // `path` is a file or a pipe, compressed or not, or "-" for standard input. Once `stop_fd` (-1 =
  // none) is readable, the input ends, also while next() waits. With a `delimiter` of cells the
  // input has rows instead of lines. Throws Error if the input cannot be opened.
  explicit LineReader(const std::string& path, int stop_fd = -1,
                      int64_t max_line_bytes = kMaxLineBytes,
                      std::optional<char> delimiter = std::nullopt);

  // The next line that is not blank, or row that is not empty, without its end (\n or \r\n) and
  // without a byte-order mark at the start of the file; nullopt at the end of the input. A line
  // beyond the limit is truncated to `max_line_bytes` + 1 bytes. The text is valid until the next
  // call. Throws Error if the input cannot be read.
  std::optional<Line> next();
  // Like next(), but returns nullopt instead of reading, which may block.
  std::optional<Line> next_ready();
  // The share (0 to 1) of a regular file that the lines so far make up; nullopt for other inputs.
  std::optional<double> share_read() const { return bytes_.share_read(end_ - begin_); }
  // Calls `judge` with the first bytes of the input, more each time, until it returns true, the
  // input ends or kMaxShown bytes are shown. Of a pipe waits for one line, but not for more.
  // REQUIRES: next() and next_ready() were not called.
  static constexpr int64_t kMaxShown = 256 << 10;
  void show(const std::function<bool(std::string_view first, bool at_end)>& judge);
  bool is_file() const { return bytes_.is_file(); }
  const std::string& name() const { return bytes_.name(); }
  bool has_changed() const { return bytes_.has_changed(); }
  bool stopped() const { return bytes_.stopped(); }

 private:
  // Skips a byte-order mark at the start of the input; false if more bytes are needed.
  bool skip_mark();
  // The \n that ends the line, from scanned_ on; null if there is none yet.
  const char* find_end();
  // Reads more bytes into the buffer; false at the end of the input.
  bool refill();
  void make_room();
  void resize(int64_t capacity);

  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  InputBytes bytes_;
  const int64_t max_line_bytes_;
  std::optional<RowScan> rows_;
  std::unique_ptr<char, Free> buffer_;
  int64_t capacity_ = 0;         // of the buffer, without padding
  int64_t begin_ = 0, end_ = 0;  // the bytes not yet returned
  int64_t scanned_ = 0;          // [begin_, scanned_) holds no end of a line
  int64_t number_ = 0;           // of the last line read
  bool at_start_ = true, at_end_ = false;
};

// Calls `take` with each complete line from byte `begin` on, \n included, and its offset in the
// file, until `take` returns false. kLinePadding readable bytes follow the line. Stops before the
// remains of a crash: a line without \n, or a line that holds a NUL byte. Returns the offset after
// the last line taken; 0 if there is no such file. Holds one line in memory at a time. Throws Error
// if the file cannot be read.
int64_t scan_lines(const std::string& path, int64_t begin,
                   const std::function<bool(std::string_view line, int64_t offset)>& take);

}  // namespace pagedinfer
