// What a run has left in its output files, read and checked before anything is changed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "output/part_file.h"
#include "output/run_mark.h"
#include "output/stored_record.h"
#include "request/input_lines.h"

namespace pagedinfer {

enum class RecordOrder : uint8_t { kInput, kCompletion };

// The lines that the run takes from its input, by index.
using TakenLines = std::vector<bool>;

// The next line, taken by the run or not; nothing at the end of the input.
using NextInputLine = std::function<std::optional<InputLine>()>;

// Reads as many lines as `mark` covers from the start of the input and returns which of them the
// run takes.
// Throws Error naming `input` if they are not the ones that the mark was made of.
TakenLines verify_input(const std::string& input, const RunMark& mark, const NextInputLine& next);

struct LeftoverPaths {
  std::string output, part;
  bool has_ended = false;  // the run: there is nothing behind what its mark covers
};

// The records that are there, each as the run has written it. A torn end is none, and neither is
// one of a line that the mark does not cover, or one in the output of which neither the mark nor a
// sum tells: after a power failure the one may be on the disk without the other.
struct Leftover {
  OutputPrefix output = {};  // all complete lines
  int64_t part_bytes = 0;    // where complete lines end
  // What stands in the output before the first record that is to be computed again. Then this,
  // where the files end, and what the output has `done` is all that was found out.
  std::optional<OutputPrefix> before_dropped = {};
  std::vector<bool> done = {};  // by index, in either file
  int64_t num_done = 0, num_failed = 0;
  int64_t num_delivered = 0;  // records in the output
  // Where the records are that wait. In the order of the input by turn, from the first record
  // that is not in the output on, -1 = not there yet.
  std::deque<int64_t> places = {};
};

// Where a record is in both files the output's counts, and of two in the part file the last one.
// With `retry_errors` error records are to be computed again. Throws Error naming file and line
// of what is no record of this run or has been changed, comes twice or (in the order of the input)
// too early. What `check` throws, called now and then, ends the reading.
Leftover read_leftover(
    const LeftoverPaths& paths, RecordOrder order, const PartHeader& header,
    const TakenLines& taken, bool retry_errors, const std::function<void()>& check = [] {});

}  // namespace pagedinfer
