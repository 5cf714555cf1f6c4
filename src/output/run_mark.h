#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/hash.h"

namespace pagedinfer {

// How far a run has read its input, and a hash of the lines, so that a changed input is noticed.
// All shards of one input end with the same mark.
struct RunMark {
  int64_t lines = 0;  // that are not blank, including lines of other shards
  uint64_t hash = 0;

  void add(std::string_view line) {
    ++lines;
    hash = hash_bytes(hash, line);
  }
  bool operator==(const RunMark&) const = default;
};

// The size of an output's first part, which ends with a whole record, and a hash of it, so that a
// change is noticed.
struct OutputPrefix {
  int64_t bytes = 0;
  uint64_t hash = 0;

  void add(std::string_view record) {
    bytes += static_cast<int64_t>(record.size());
    hash = hash_bytes(hash, record);
  }
  bool operator==(const OutputPrefix&) const = default;
};

// The progress of a run, as OUTPUT.part holds it twice.
struct StateMark {
  RunMark input = {};
  OutputPrefix output = {};
  int64_t serial = 0;  // of two valid marks the larger serial counts

  bool operator==(const StateMark&) const = default;
};

// A mark is a line of kMarkBytes bytes, \n included (wrapped here after the third key):
//
//   {"serial":           1,"lines":           6,"hash":"0f6f58dc4532c4ae",
//   "bytes":              0,"output":"0000000000000000","check":"6e7e45f3791e387b"}
//
// Numbers are decimal, padded with blanks; hashes are 16 hexadecimal digits. `hash` is of the input
// lines, `output` of the first `bytes` bytes of the output, `check` of all that stands before
// `,"check"`. docs/output_files.md has the columns.
inline constexpr int64_t kMarkBytes = 150;

std::string mark_line(const StateMark& mark);
// nullopt if mark_line() cannot have written this line, for example after a crash in the middle of
// writing it.
std::optional<StateMark> parse_mark(std::string_view line);

}  // namespace pagedinfer
