#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_calls.h"
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

// Where a run goes on from.
struct ResumeFrom {
  std::string input;          // its name, for messages
  NextInputLine next_line;    // from the first line on
  bool retry_errors = false;  // compute error records again
  // Called now and then until files change; may throw, as next_line may.
  std::function<void()> check = [] {};
};

// The completions file. In the order of the input a record whose turn has not come waits in
// PATH.part (where the output is standard output or no regular file: in a temporary file), and
// memory holds 8 bytes for it.
//
// A lock on PATH keeps other runs away from it and its PATH.part.
//
// What is on disk:
// - A record that flush() has handed to the system stays, whatever becomes of the process. After
//   a power failure all is there that was flushed when sync() was last called.
// - Of a run in progress PATH.part says, from before the first record on, what it computes (the
//   fingerprint), how far it has read its input, and which part of the output is done with (the
//   mark). Behind that stand lines with sums: records that wait, and receipts for records that went
//   into the output at once.
// - Every flush writes PATH.part first, the mark before the lines, then PATH. So the mark covers
//   the input of every record, one that leaves PATH.part is in PATH, and of a record in PATH there
//   is a sum. It may stand in both.
// - Lines go from PATH.part when no record waits and the disk has the output: before that the mark
//   says how long the output is, with a hash of it, and the disk has the mark. So the output is
//   never shorter than the mark says, and behind that every record has its sum.
// - At the end PATH is synced, and then PATH.part, emptied of lines, becomes PATH.run.
//
// So every record that a resumed run takes for finished is compared with what was written: by the
// hash up to where the mark covers the output, by its sum behind that, and in PATH.part. What
// differs is refused. What a crash leaves is not: a torn end of either file, and records in the
// output without a sum, which are computed again (PATH.part lost its end in a power failure, or
// the process died before the end of a flush).
class RecordOutput {
 public:
  // `path` may be standard output. An existing output or PATH.part is refused unless `overwrite`;
  // then it is replaced when the first record is there. Throws Error, here and in all that follows;
  // then the output is not to be used any more, and can be resumed.
  RecordOutput(const std::string& path, OutputOptions options);

  // Goes on with what is in PATH and PATH.part or, if the run has ended, PATH.run; begins at the
  // beginning if there is nothing. What does not belong to this run, or to this input, is an
  // Error that names it; then nothing has changed.
  static RecordOutput resume(const std::string& path, OutputOptions options,
                             const ResumeFrom& from);

  // `turn` counts the lines that the run takes.
  // REQUIRES: `record` is one line with its end; no turn comes twice, or one that is done.
  void append(int64_t turn, std::string_view record);
  // Hands everything appended to the system; `mark` covers it. To be called after each step.
  // Syncs when it is time.
  void flush(const RunMark& mark);
  // Waits until the disk has all that was flushed.
  void sync();
  // REQUIRES: every turn up to the largest was appended or is done. Ends the output.
  void finish(const RunMark& mark);

  int64_t num_appended() const { return num_appended_; }
  // Appended or left by an earlier run, and not in PATH: their turn has not come.
  int64_t num_waiting() const { return num_waiting_; }
  // What was there already.
  bool is_done(int64_t index) const {
    return index < static_cast<int64_t>(done_.size()) && done_[static_cast<size_t>(index)];
  }
  int64_t num_done() const { return num_done_; }
  int64_t num_failed() const { return num_failed_; }  // of these, error records
  bool can_be_resumed() const { return output_.is_regular(); }

 private:
  RecordOutput(const std::string& path, OutputOptions options, OutputFile output);

  // Makes the part file, if there is none: from here on what was there before is gone.
  void begin();
  PartFile& part();
  void deliver_at_once(int64_t turn, std::string_view record);
  void deliver(std::string_view record);
  void deliver_waiting();
  void take_over(Leftover left);
  void check_places() const;
  bool may_clear();
  void clear_part();

  OutputOptions options_;
  std::string path_;
  OutputFile output_;
  OutputPrefix prefix_;           // all that was appended to it
  std::optional<PartFile> part_;  // of an output that is no file: made when first needed
  std::deque<int64_t> places_;    // of the records from next_ on, -1 = not there yet
  int64_t next_ = 0;              // whose turn it is
  int64_t num_waiting_ = 0, num_appended_ = 0;
  double last_sync_ = 0;
  std::vector<bool> done_;
  int64_t num_done_ = 0, num_failed_ = 0;
};

}  // namespace pagedinfer
