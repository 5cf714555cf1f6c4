// Reads and checks the files of an earlier run, before a resumed run changes anything.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "output/part_file.h"
#include "output/record.h"
#include "output/run_mark.h"
#include "request/input_lines.h"

namespace pagedinfer {

enum class RecordOrder : uint8_t { kInput, kCompletion };

// The lines that the run takes from its input, by index.
using TakenLines = std::vector<bool>;

// Returns the next line, including lines of other shards; nullopt at the end of the input.
using NextInputLine = std::function<std::optional<InputLine>()>;

// Reads the lines that `mark` covers from the start of the input and returns which of them the run
// takes. Throws Error naming `input` if their number or hash differs from the mark.
TakenLines verify_input(const std::string& input, const RunMark& mark, const NextInputLine& next);

struct LeftoverPaths {
  std::string output, part;
  bool has_ended = false;  // the run has ended: the mark covers the whole output
};

// The intact records in both files. Three things that a power failure can leave are not among them:
// an incomplete last line, a record whose input line the mark does not cover, and a record of the
// output that neither the mark nor a hash in the part file covers.
struct Leftover {
  OutputPrefix output = {};  // all complete lines
  int64_t part_bytes = 0;    // all complete lines of the part file
  // The output before its first record that must be computed again; not set if there is no such
  // record. If set, `offsets` is empty and `done` covers the output only.
  std::optional<OutputPrefix> before_dropped = {};
  std::vector<bool> done = {};  // by index, in either file
  int64_t num_done = 0, num_failed = 0;
  int64_t num_delivered = 0;  // records in the output
  // Offsets of waiting records in the part file. In input order they are indexed by turn, from the
  // first record that is not in the output; -1 = not computed yet.
  std::deque<int64_t> offsets = {};
};

// The records that a resumed run keeps.
struct KeptRecords {
  bool errors = true;  // false: they must be computed again
  // If the model's length has changed: all other ones must have fewer tokens.
  std::optional<int64_t> below = {};
};

// If a record is in both files, the output's record counts. If it is twice in the part file, the
// later one counts. Throws Error naming file and line if a record does not belong to this run, was
// changed, occurs twice in the output, is out of order (in input order), or is not below the limit.
// Calls `check` now and then, which may throw to cancel.
Leftover read_leftover(
    const LeftoverPaths& paths, RecordOrder order, const PartHeader& header,
    const TakenLines& taken, const KeptRecords& kept, const std::function<void()>& check = [] {});

}  // namespace pagedinfer
