#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/shard.h"
#include "io/line_reader.h"

namespace pagedinfer {

// Which of its input's lines a run takes.
struct LineChoice {
  // The file's first records only, and of these the lines of the shard: shards 0/N to N-1/N with
  // one limit share what the limit alone takes.
  std::optional<int64_t> limit = {};
  Shard shard = {};
};

// A line that is not blank.
struct InputLine {
  std::string_view text;
  int64_t index = 0;   // counts the file's records, blank lines are none
  int64_t turn = 0;    // of a line that the run takes: counts these
  int64_t number = 0;  // of the line in the file, from 1
  bool taken = true;   // by this run; else another shard's
};

// The lines of a run's input, one at a time. Whoever reads the same file with the same choice finds
// the same lines.
class InputLines {
 public:
  // As LineReader. Throws Error for a file that is certainly something else than JSON lines.
  InputLines(const std::string& path, const LineChoice& choice, int stop_fd = -1);

  // The same of a pipe, by its first line and what comes with it. To be called before the first
  // line is taken.
  void recognize();

  // Nothing at the end; beyond the limit nothing is read. The text is valid until the next call,
  // and kLinePadding readable bytes follow it. Throws Error when the input cannot be read.
  std::optional<InputLine> next() { return take(&LineReader::next); }
  // The same, but nothing where the input would have to be read for it: that may take long.
  std::optional<InputLine> next_ready() { return take(&LineReader::next_ready); }
  // How many lines the run takes of a regular file, if what is to come is like what has come.
  // Nothing of other inputs, and before the first line.
  std::optional<double> estimate() const;
  // Whether somebody has written to the file since it was opened.
  bool has_changed() const { return reader_.has_changed(); }

 private:
  std::optional<InputLine> take(std::optional<LineReader::Line> (LineReader::*read)());

  LineReader reader_;
  const LineChoice choice_;
  int64_t num_records_ = 0, num_taken_ = 0;
};

}  // namespace pagedinfer
