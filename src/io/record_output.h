#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "io/output_file.h"

namespace pagedinfer {

// Records, one line each, waiting in a file for their turn.
class WaitingRecords {
 public:
  // Owns `file`, which must be a regular one.
  explicit WaitingRecords(OutputFile file) : file_(std::move(file)) {}

  // Adds a line and returns the place it can be had from.
  int64_t add(std::string_view line);
  // The line at `place`, valid until the next call.
  std::string_view line_at(int64_t place);
  void flush() { file_.flush(); }
  void clear();

 private:
  void load(int64_t place, int64_t size);

  OutputFile file_;
  std::string window_;        // a piece of the file
  int64_t window_begin_ = 0;  // where it was read from
  int64_t window_used_ = 0;   // bytes of it that were asked for
};

// The completions file. In the order of the input a record whose turn has not come waits in
// PATH.part (where the output is no regular file: in a temporary file), and memory holds 8 bytes
// for it. What was flushed stays, whole records only, whatever happens then.
class RecordOutput {
 public:
  enum class Order : uint8_t { kInput, kCompletion };

  // `path` "-" is standard output. An existing output or PATH.part is refused unless `overwrite`;
  // then nothing has changed. Throws Error, here and in all that follows.
  RecordOutput(const std::string& path, Order order, bool overwrite);

  // REQUIRES: `record` is one line with its end; no index comes twice.
  void append(int64_t index, std::string_view record);
  // Hands everything appended to the system. To be called after each step.
  void flush();
  // REQUIRES: every index up to the largest was appended. Ends the output and removes PATH.part.
  void finish();

  int64_t num_appended() const { return num_appended_; }

 private:
  static std::string claim(const std::string& path, bool overwrite);
  WaitingRecords& waiting();
  void deliver_waiting();

  const Order order_;
  const std::string part_path_;  // "" = a temporary file
  OutputFile output_;
  std::optional<WaitingRecords> waiting_;  // made when first needed
  std::deque<int64_t> places_;             // of the records from next_ on, -1 = not there yet
  int64_t next_ = 0;                       // whose turn it is
  int64_t num_waiting_ = 0, num_appended_ = 0;
};

}  // namespace pagedinfer
