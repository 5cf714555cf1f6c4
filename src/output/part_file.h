#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "output/fingerprint.h"
#include "output/output_file.h"
#include "output/run_mark.h"

namespace pagedinfer {

// What stands before the lines of a PATH.part: two lines for marks, of which the later one counts
// (the other one is being written), and a line with the version and the run's fingerprint.
// docs/output_files.md shows all lines byte for byte.
struct PartHeader {
  StateMark mark = {};
  int slot = 0;  // the line that holds it
  Fingerprint fingerprint = {};
  int64_t bytes = 0;  // of all three lines
};

// Counts up when the program computes other records from the same settings, or writes another
// state.
inline constexpr std::string_view kStateVersion = "3";

std::string part_header(const Fingerprint& fingerprint);
// Nothing if the file ends before the header does: then the run ended before it had a record.
// Throws Error if it is there and not one, or is of another version; then `way_out` says what to
// do.
std::optional<PartHeader> read_part_header(
    const std::string& path,
    std::string_view way_out = "end the run with that version, or --overwrite begins a new one");

// A line behind the header: the sum of a record, and the record or, of one that went into the
// output at once, its turn.
struct PartLine {
  uint64_t sum = 0;
  std::string_view record = {};  // with its end; "" where the turn stands for it
  int64_t turn = -1;

  bool is_receipt() const { return record.empty(); }
};

uint64_t sum_of(std::string_view record);
std::string waiting_line(std::string_view record);
std::string receipt_line(int64_t turn, std::string_view record);
// Nothing if it is none. The sum is not compared with the record.
std::optional<PartLine> parse_part_line(std::string_view line);

// Records, one line each, waiting in a file for their turn behind a header, and sums of those in
// the output that no mark covers.
class PartFile {
 public:
  // Owns `file`, which must be a regular one and end behind `header` or a line. Without a header
  // there are no marks.
  PartFile(OutputFile file, const PartHeader& header);

  // Adds a record and returns the place it can be had from.
  int64_t add(std::string_view record);
  // Adds the sum of a record that goes into the output.
  void add_receipt(int64_t turn, std::string_view record);
  // The record at `place`, valid until the next call. Throws Error if it is not what was added.
  std::string_view record_at(int64_t place);
  // Says, before the records that it covers are written, how far the input was read. A mark
  // that covers less than the last one says nothing.
  void set_mark(const RunMark& mark);
  // Says which part of the output needs no sums of records any more.
  void set_output(const OutputPrefix& output);
  const StateMark& mark() const { return mark_; }
  void flush() { file_.flush(); }
  void sync() { file_.sync(); }
  // Forgets the lines behind the header.
  void clear();
  void close() { file_.close(); }
  void check_place() const { file_.check_place(); }

  int64_t line_bytes() const { return file_.size() - header_bytes_; }

 private:
  std::string_view line_at(int64_t place);
  void load(int64_t place, int64_t size);
  void write(StateMark mark);

  OutputFile file_;
  int64_t header_bytes_;
  StateMark mark_;
  int slot_;
  std::string window_;        // a piece of the file
  int64_t window_begin_ = 0;  // where it was read from
  int64_t window_used_ = 0;   // bytes of it that were asked for
};

}  // namespace pagedinfer
