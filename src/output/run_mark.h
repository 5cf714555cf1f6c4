#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/hash.h"

namespace pagedinfer {

// How far a run has read its input, and a hash of what it read: another input is noticed. All
// shards of one input have the same mark at their end.
struct RunMark {
  int64_t lines = 0;  // taken by the run or not, blank ones not among them
  uint64_t hash = 0;

  void add(std::string_view line) {
    ++lines;
    hash = hash_bytes(hash, line);
  }
  bool operator==(const RunMark&) const = default;
};

// The beginning of an output, whole records only, and a hash of it: a record that somebody has
// changed is noticed.
struct OutputPrefix {
  int64_t bytes = 0;
  uint64_t hash = 0;

  void add(std::string_view record) {
    bytes += static_cast<int64_t>(record.size());
    hash = hash_bytes(hash, record);
  }
  bool operator==(const OutputPrefix&) const = default;
};

// What a run says of itself beside its output.
struct StateMark {
  RunMark input = {};
  OutputPrefix output = {};
  int64_t serial = 0;  // of two marks the one with the larger number counts

  bool operator==(const StateMark&) const = default;
};

inline constexpr int64_t kMarkBytes = 150;  // of every mark's line, its end included

// docs/output_files.md shows the line column by column.
std::string mark_line(const StateMark& mark);
// Nothing if the line is not one that mark_line() has written.
std::optional<StateMark> parse_mark(std::string_view line);

}  // namespace pagedinfer
