#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/shard.h"
#include "io/line_reader.h"

namespace pagedinfer {

// Which lines of its input a run takes.
struct LineChoice {
  // The run takes the first `limit` lines that are not blank and, of these, the lines of the shard.
  // So the shards 0/N to N-1/N together take the same lines as the limit alone.
  std::optional<int64_t> limit = {};
  Shard shard = {};
};

// A line that is not blank.
struct InputLine {
  std::string_view text;
  int64_t index = 0;   // among the lines of the file that are not blank, from 0
  int64_t turn = 0;    // among the lines that the run takes, from 0; else the next such line's
  int64_t number = 0;  // among all lines of the file, from 1
  bool taken = true;   // by this run; false for lines of other shards
};

// Reads the lines of a run's input one at a time. Deterministic: the same file and choice give the
// same lines.
class InputLines {
 public:
  // Opens the input as LineReader does. Throws Error if a file is certainly not JSON lines.
  InputLines(const std::string& path, const LineChoice& choice, int stop_fd = -1);

  // Throws Error if the first bytes are certainly not JSON lines. Waits for the first line of a
  // pipe. REQUIRES: no line was taken.
  void recognize();

  // The next line; nullopt at the end of the input or at the limit. The text is valid until the
  // next call, and kLinePadding readable bytes follow it. Throws Error if the input cannot be read.
  std::optional<InputLine> next() { return take(&LineReader::next); }
  // Like next(), but returns nullopt instead of reading, which may block.
  std::optional<InputLine> next_ready() { return take(&LineReader::next_ready); }
  // Estimates from the lines read so far how many lines the run takes of a regular file. nullopt
  // for other inputs and before the first line.
  std::optional<double> estimate() const;
  // Whether the file was modified since it was opened.
  bool has_changed() const { return reader_.has_changed(); }

 private:
  std::optional<InputLine> take(std::optional<LineReader::Line> (LineReader::*read)());

  LineReader reader_;
  const LineChoice choice_;
  int64_t num_records_ = 0, num_taken_ = 0;
};

}  // namespace pagedinfer
