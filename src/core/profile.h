// What a profile knows of a step: how long each operation took, and the least that it had to
// move and compute.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

namespace pagedinfer {

enum class OpKind : uint8_t {
  kEmbed,
  kRopeTable,
  kRmsNorm,
  kAdd,
  kAddRmsNorm,
  kAddBias,
  kMatmul,
  kRope,
  kGate,
  kWriteKv,
  kRotateAndWriteKv,
  kAttention,
  kGatherRows,
  kSample,
  kReplay  // all of them but sampling, as one piece
};

// What a profile tells apart.
struct OpName {
  OpKind kind = OpKind::kEmbed;
  int64_t in = 0, out = 0;  // columns of a matmul's input and, all products together, outputs
  int window = 0;           // of attention; 0 = none

  auto operator<=>(const OpName&) const = default;
};

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
