#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_names.h"
#include "output/fingerprint.h"
#include "output/leftover.h"
#include "output/output_file.h"
#include "output/part_file.h"

namespace pagedinfer {

struct OutputOptions {
  RecordOrder order = RecordOrder::kInput;
  bool overwrite = false;
  Fingerprint fingerprint = {};
  double sync_every = 0;                              // seconds; 0 = at the end only
  std::function<double()> clock = [] { return 0.; };  // seconds
  FileCalls calls = {};
  int open_pipe = -1;  // as OutputFile
};

// The input of a resumed run.
struct ResumeFrom {
  std::string input;          // its name, for messages
  NextInputLine next_line;    // begins with the first line
  bool retry_errors = false;  // error records are computed again
  // Called now and then before any file changes; may throw to cancel, as may next_line.
  std::function<void()> check = [] {};
};

// The completions file. In input order, a record whose turn has not come waits in PATH.part, or in
// a temporary file if the output is standard output or not a regular file; memory holds 8 bytes for
// it. A lock on PATH keeps other runs away from PATH and PATH.part.
//
// What is on disk:
// - A flushed record survives the death of the process. A record that was flushed before the last
//   sync() survives a power failure too.
// - PATH.part of a run in progress holds the fingerprint, which says what the run computes, and the
//   mark, which says how far the run has read its input and which part of the output is final. Both
//   are there before the first record, even after a power failure. Lines with hashes follow:
//   waiting records, and receipts for records that went into the output at once.
// - Every flush writes PATH.part first, the mark before the lines, then PATH. So the mark covers
//   the input of every record, a record that leaves PATH.part is in PATH, and the hash of every
//   record in PATH is in PATH.part. A record may be in both.
// - Lines are removed from PATH.part only when no record waits and the output is synced. Before
//   that a mark with the length and the hash of the output is written and synced. So the output is
//   never shorter than the mark says, and every later record has its hash in PATH.part.
// - At the end PATH is synced; then PATH.part, without lines, is renamed to PATH.run.
//
// So a resumed run can check every record that it keeps: in the part of PATH that the mark covers
// by the mark's hash, after that part and in PATH.part by the record's own hash. A difference is an
// error. What a crash can leave is not an error: an incomplete last line of either file, and
// records of the output without a hash, which are computed again. Such records exist if PATH.part
// lost its end in a power failure, or if the process died during a flush.
class RecordOutput {
 public:
  // Begins an output; `path` may be standard output. Throws Error if the output or PATH.part
  // exists, unless `overwrite`: then they are replaced when the first record is written. All
  // functions throw Error if writing fails; after that the object must not be used, but the run can
  // be resumed.
  RecordOutput(const std::string& path, OutputOptions options);

  // Continues PATH and PATH.part or, if the run has ended, PATH.run; begins a new output if there
  // is none. Throws Error, before any file has changed, if the files do not belong to this run and
  // this input.
  static RecordOutput resume(const std::string& path, OutputOptions options,
                             const ResumeFrom& from);

  // Adds the record of a line. `turn` is the line's number, from 0, among the lines that the run
  // takes. REQUIRES: `record` is one line with its \n; its turn was not appended before and is not
  // done.
  void append(int64_t turn, std::string_view record);
  // Writes everything appended; `mark` covers the input of these records. Syncs if `sync_every`
  // seconds have passed. REQUIRES: called after each step.
  void flush(const RunMark& mark);
  // Syncs everything that was flushed.
  void sync();
  // Syncs and closes the output of a complete run. REQUIRES: every turn up to the largest was
  // appended or is done.
  void finish(const RunMark& mark);

  // Records that wait for earlier records before they go into PATH, including waiting records of an
  // earlier run.
  int64_t num_waiting() const { return num_waiting_; }
  // Whether an earlier run left the record, and how many records it left.
  bool is_done(int64_t index) const {
    return index < static_cast<int64_t>(done_.size()) && done_[static_cast<size_t>(index)];
  }
  int64_t num_done() const { return num_done_; }
  int64_t num_failed() const { return num_failed_; }  // of these, error records
  bool can_be_resumed() const { return output_.is_regular(); }

 private:
  RecordOutput(const std::string& path, OutputOptions options, OutputFile output);

  // Creates the part file if there is none. Removes or truncates the files of an earlier run.
  void begin();
  PartFile& part();
  void deliver_at_once(int64_t turn, std::string_view record);
  void deliver(std::string_view record);
  void deliver_waiting();
  void restore(Leftover left);
  void check_names() const;
  bool may_clear();
  void clear_part();

  OutputOptions options_;
  std::string path_;
  OutputFile output_;
  OutputPrefix prefix_;           // the whole output
  std::optional<PartFile> part_;  // if the output is not a file, created when first needed
  std::deque<int64_t> offsets_;   // in the part file, of the turns from next_ on; -1 = not appended
  int64_t next_ = 0;              // the turn of the next record of the output
  int64_t num_waiting_ = 0;
  double last_sync_ = 0;
  std::vector<bool> done_;
  int64_t num_done_ = 0, num_failed_ = 0;
};

}  // namespace pagedinfer
