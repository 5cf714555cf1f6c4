#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "output/fingerprint.h"
#include "output/line_window.h"
#include "output/output_file.h"
#include "output/run_mark.h"

namespace pagedinfer {

// The first three lines of a PATH.part: two marks, then the state version with the run's
// fingerprint. Of two valid marks the one with the larger serial counts. docs/output_files.md shows
// all lines byte for byte.
struct PartHeader {
  StateMark mark = {};
  int slot = 0;  // the line that holds it
  Fingerprint fingerprint = {};
  int64_t bytes = 0;  // of all three lines
};

// Increased whenever the program computes different records from the same settings, or changes the
// layout of this file.
inline constexpr std::string_view kStateVersion = "9";

// The header of a run that has come as far as `mark`.
std::string part_header(const Fingerprint& fingerprint, const StateMark& mark = {});
// Reads the header of a .part or .run file. nullopt if the file ends inside the header; then the
// run had written no record. Throws Error if the header is damaged or belongs to another version.
// In the second case the message ends with `way_out`, which says what to do.
std::optional<PartHeader> read_part_header(
    const std::string& path,
    std::string_view way_out = "end the run with that version, or --overwrite begins a new one");

// A line after the header. It holds the hash of a record. The record itself follows if it waits for
// its turn. Otherwise the line is a receipt, and only the turn of the record follows, which is in
// the output.
struct PartLine {
  uint64_t hash = 0;
  std::string_view record = {};  // with its \n; "" in a receipt
  int64_t turn = -1;             // of a receipt

  bool is_receipt() const { return record.empty(); }
};

uint64_t record_hash(std::string_view record);
std::string waiting_line(std::string_view record);
std::string receipt_line(int64_t turn, std::string_view record);
// nullopt if `line` has neither form. Does not compare the hash with the record.
std::optional<PartLine> parse_part_line(std::string_view line);

// OUTPUT.part: a header, the records that wait for their turn, and receipts for the records of the
// output that no mark covers yet. docs/output_files.md shows it byte by byte.
class PartFile {
 public:
  // REQUIRES: `file` is a regular file that ends after `header` or after a line. If `header` has no
  // bytes, the file has no header and no marks (a temporary file).
  PartFile(OutputFile file, const PartHeader& header);

  // Appends a waiting record and returns its offset for record_at().
  int64_t add(std::string_view record);
  // Appends a receipt for a record that goes into the output at once.
  void add_receipt(int64_t turn, std::string_view record);
  // The record that add() appended at `offset`, valid until the next call. Throws Error if the file
  // was changed there.
  std::string_view record_at(int64_t offset);
  // Writes how far the input was read. Ignores a mark with fewer lines than the last mark.
  // REQUIRES: called before the records of these lines are written.
  void set_mark(const RunMark& mark);
  // Writes which part of the output the mark covers. Records in that part no longer need receipts.
  void set_output(const OutputPrefix& output);
  const StateMark& mark() const { return mark_; }
  void flush() { file_.flush(); }
  void sync() { file_.sync(); }
  // Removes all lines after the header.
  void clear();
  void close() { file_.close(); }
  void check_name() const { file_.check_name(); }

  int64_t line_bytes() const { return file_.size() - header_bytes_; }

 private:
  std::string_view line_at(int64_t offset);
  void write(StateMark mark);

  OutputFile file_;
  int64_t header_bytes_;
  StateMark mark_;
  int slot_;  // the line that holds mark_: 0 or 1
  LineWindow window_;
};

}  // namespace pagedinfer
