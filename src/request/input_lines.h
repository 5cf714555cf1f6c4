#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/shard.h"
#include "io/line_reader.h"
#include "request/table_rows.h"
#include "settings/config.h"

namespace pagedinfer {

// Which lines of its input a run takes. Where this folder and others say line, they mean a row if
// the input is a table.
struct LineChoice {
  // The run takes the first `limit` lines that are not blank and, of these, the lines of the shard.
  // So the shards 0/N to N-1/N together take the same lines as the limit alone.
  std::optional<int64_t> limit = {};
  Shard shard = {};
  std::optional<TableForm> table = {};  // none: JSON lines
};

// The lines that a run takes. Whether its input is a table is decided by the flag or, without it,
// by the file's name.
LineChoice choice_of(const Config& config);

// A line that is not blank.
struct InputLine {
  std::string_view text;    // JSON, if there is no error
  int64_t index = 0;        // among the lines of the file that are not blank, from 0
  int64_t turn = 0;         // among the lines that the run takes, from 0; else the next such line's
  int64_t number = 0;       // among all lines of the file, from 1; of a row, where it begins
  bool taken = true;        // by this run; false for lines of other shards
  RequestError error = {};  // of a row that is no object; then `text` is the row
};

// Reads the lines of a run's input one at a time. Deterministic: the same file and choice give the
// same lines.
class InputLines {
 public:
  // Opens the input as LineReader does. Throws Error if a file is certainly not what `choice` says,
  // or is a table with a wrong header.
  InputLines(const std::string& path, const LineChoice& choice, int stop_fd = -1);

  // The same for any input. Waits for the first line of a pipe. REQUIRES: no line was taken.
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
  using Read = std::optional<LineReader::Line> (LineReader::*)();

  std::optional<InputLine> take(Read read);
  // Reads the header of a table if it was not read; false if that needs more bytes.
  bool has_header(Read read);

  LineReader reader_;
  const LineChoice choice_;
  std::optional<TableRows> rows_;
  int64_t num_records_ = 0, num_taken_ = 0;
};

}  // namespace pagedinfer
