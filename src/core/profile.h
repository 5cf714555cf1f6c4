// What a profile measures in a step: the time of each operation, and the minimum of bytes and
// floating-point operations that it needs.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace pagedinfer {

// A profile adds up operations of the same name.
struct OpName {
  std::string_view kind = "";  // of static storage duration
  int64_t in = 0, out = 0;     // columns of a matmul's input, and of its outputs together
  int window = 0;              // of attention; 0 = none

  auto operator<=>(const OpName&) const = default;
};

inline constexpr std::string_view kSampleName = "sample";
inline constexpr std::string_view kCopyKvName = "copy_kv";
// All operations of a captured step except sampling and copies.
inline constexpr std::string_view kReplayName = "replay";

// The work that an operation cannot avoid: every input read once, every output written once.
struct OpWork {
  double bytes = 0, flops = 0;
  double int8_flops = 0;  // the part of flops on integers of 8 bits
};

struct TimedOp {
  OpName name = {};
  OpWork work = {};
  double seconds = 0;  // on the device
};

struct TimedStep {
  bool decode_only = false;  // every sequence has one token and one row of logits
  std::vector<TimedOp> ops = {};
  // Seconds since the end of the previous step in which no operation ran (staging, for example).
  // Unset if the engine was idle between the two steps.
  std::optional<double> gap = {};
};

// The highest rates that were measured on this machine.
struct DevicePeaks {
  double bytes_per_second = 0, flops_per_second = 0;
  double int8_flops_per_second = 0;  // 0: not measured, and no operation has such work
};

// The minimum time for the work at these rates, in seconds (the roofline model).
inline double bound_of(const OpWork& work, const DevicePeaks& peaks) {
  double arithmetic = (work.flops - work.int8_flops) / peaks.flops_per_second;
  if (work.int8_flops > 0) arithmetic += work.int8_flops / peaks.int8_flops_per_second;
  return std::max(work.bytes / peaks.bytes_per_second, arithmetic);
}

}  // namespace pagedinfer
