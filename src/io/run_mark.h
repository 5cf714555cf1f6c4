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

inline constexpr int64_t kMarkBytes = 76;  // of every mark's line, its end included

std::string mark_line(const RunMark& mark);
// Nothing if the line is not one that mark_line() has written.
std::optional<RunMark> parse_mark(std::string_view line);

}  // namespace pagedinfer
