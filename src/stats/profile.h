#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/profile.h"
#include "stats/histogram.h"
#include "stats/report.h"

namespace pagedinfer {

// One operation of all steps of a kind.
struct OpProfile {
  OpName name = {};
  bool decode_only = false;  // the kind
  int64_t calls = 0;
  OpWork work = {};
  double seconds = 0;
  double bound = 0;  // the least seconds by the machine's peaks, call by call
};

// The time between steps in which no operation ran.
struct GapProfile {
  int64_t count = 0;
  double total = 0;  // seconds
  Spread spread = {};
};

struct Profile {
  DevicePeaks peaks = {};
  int64_t steps = 0, decode_steps = 0;  // the second: decode only, among the first
  // Of the decode steps, those that were replayed in one piece, and their seconds but for sampling.
  // The operations of the others stand for them too: `ops` has as many times as much of them.
  int64_t replayed_steps = 0;
  double replayed_seconds = 0, queued_seconds = 0;  // the others'
  std::vector<OpProfile> ops = {};                  // most seconds first
  GapProfile gaps = {}, decode_gaps = {};

  double op_seconds() const;
  double seconds() const { return op_seconds() + gaps.total; }
};

// Sums up steps as they come, in constant memory.
class ProfileReport {
 public:
  explicit ProfileReport(const DevicePeaks& peaks) { profile_.peaks = peaks; }

  void add(const TimedStep& step);
  Profile profile() const;

 private:
  Profile profile_ = {};  // the counts; the rest is derived
  std::map<std::pair<OpName, bool>, OpProfile> ops_ = {};
  Histogram gaps_ = {}, decode_gaps_ = {};
};

// "matmul 3072x5120", "attention, window 512".
std::string label_of(const OpName& name);

// The lines of the closing table, of at most 80 columns: the operations of decode steps and of the
// others, the slowest first, then gaps.
std::string profile_table(const Profile& profile);

}  // namespace pagedinfer
