#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/profile.h"
#include "stats/histogram.h"
#include "stats/report.h"

namespace pagedinfer {

// One operation, summed over all decode-only steps or over all other steps.
struct OpProfile {
  OpName name = {};
  bool decode_only = false;  // which of the two
  int64_t calls = 0;
  OpWork work = {};
  double seconds = 0;
  double bound = 0;  // seconds that the device's peaks allow at best, summed over the calls
  double share = 0;  // of the seconds of all operations and gaps
};

// The time between steps in which no operation ran.
struct GapProfile {
  int64_t count = 0;
  double total = 0;  // seconds
  Spread spread = {};
};

struct Profile {
  DevicePeaks peaks = {};
  int64_t steps = 0, decode_steps = 0;  // all, and those of them without prefill
  // Decode steps that replayed a CUDA graph, whose operations cannot be timed one by one. `ops`
  // holds the operations of the other decode steps, scaled up to the number of all decode steps.
  int64_t replayed_steps = 0;
  double replayed_seconds = 0, queued_seconds = 0;  // of replayed and other ones, but for sampling
  std::vector<OpProfile> ops = {};                  // most seconds first
  GapProfile gaps = {}, decode_gaps = {};

  double op_seconds() const;
  double seconds() const { return op_seconds() + gaps.total; }
};

// Adds up steps as they come, in constant memory.
class ProfileReport {
 public:
  explicit ProfileReport(const DevicePeaks& peaks) { profile_.peaks = peaks; }

  void add(const TimedStep& step);
  Profile profile() const;

 private:
  Profile profile_ = {};  // counts only; profile() computes the rest
  std::map<std::pair<OpName, bool>, OpProfile> ops_ = {};
  Histogram gaps_ = {}, decode_gaps_ = {};
};

// "matmul 3072x5120", "attention, window 512".
std::string label_of(const OpName& name);

// The profile as lines of at most 80 columns for the closing table: the operations of decode steps
// and of other steps, slowest first, then the gaps.
std::string profile_table(const Profile& profile);

}  // namespace pagedinfer
