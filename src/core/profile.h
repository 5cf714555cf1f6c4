// What a profile knows of a step: how long each operation took, and the least that it had to
// move and compute.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace pagedinfer {

// What a profile tells apart.
struct OpName {
  std::string_view kind = "";  // lives as long as the program
  int64_t in = 0, out = 0;     // columns of a matmul's input and, all products together, outputs
  int window = 0;              // of attention; 0 = none

  auto operator<=>(const OpName&) const = default;
};

inline constexpr std::string_view kSampleName = "sample";
inline constexpr std::string_view kReplayName = "replay";  // all but sampling, as one piece

// What an operation must do at least: every input read once, every output written once.
struct OpWork {
  double bytes = 0, flops = 0;
};

struct TimedOp {
  OpName name = {};
  OpWork work = {};
  double seconds = 0;  // on the device
};

struct TimedStep {
  bool decode_only = false;  // one token of each sequence, and a logit row for each
  std::vector<TimedOp> ops = {};
  // Seconds since the step before in which none of `ops` ran, staging among them; none for a step
  // that came after a time without work.
  std::optional<double> gap = {};
};

// What the machine can do at most, as measured.
struct DevicePeaks {
  double bytes_per_second = 0, flops_per_second = 0;
};

// The least seconds that the work takes.
inline double bound_of(const OpWork& work, const DevicePeaks& peaks) {
  return std::max(work.bytes / peaks.bytes_per_second, work.flops / peaks.flops_per_second);
}

}  // namespace pagedinfer
