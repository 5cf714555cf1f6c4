#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/fingerprint.h"
#include "io/output_file.h"
#include "io/run_mark.h"

namespace pagedinfer {

// What stands before the records of a PATH.part: two lines for marks, of which the larger one
// counts (the other one is being written), and a line with the version and the run's fingerprint.
struct PartHeader {
  RunMark mark = {};
  int slot = 0;  // the line that holds it
  Fingerprint fingerprint = {};
  int64_t bytes = 0;  // of all three lines
};

// Counts up when the program computes other records from the same settings, or writes another
// header.
inline constexpr std::string_view kStateVersion = "2";

std::string part_header(const Fingerprint& fingerprint);
// Nothing if the file ends before the header does: then the run ended before it had a record.
// Throws Error if it is there and not one, or is of another version.
std::optional<PartHeader> read_part_header(const std::string& path);

// Records, one line each, waiting in a file for their turn behind a header.
class PartFile {
 public:
  // Owns `file`, which must be a regular one and end behind `header` or a line. Without a header
  // there are no marks.
  PartFile(OutputFile file, const PartHeader& header);

  // Adds a line and returns the place it can be had from.
  int64_t add(std::string_view line);
  // The line at `place`, valid until the next call.
  std::string_view line_at(int64_t place);
  // Says, before the records that it covers are written, how far the input was read. A mark
  // that covers less than the last one says nothing.
  void set_mark(const RunMark& mark);
  void flush() { file_.flush(); }
  void sync() { file_.sync(); }
  // Forgets the records.
  void clear();
  void close() { file_.close(); }

  int64_t record_bytes() const { return file_.size() - header_bytes_; }

 private:
  void load(int64_t place, int64_t size);

  OutputFile file_;
  int64_t header_bytes_;
  RunMark mark_;
  int slot_;
  std::string window_;        // a piece of the file
  int64_t window_begin_ = 0;  // where it was read from
  int64_t window_used_ = 0;   // bytes of it that were asked for
};

}  // namespace pagedinfer
