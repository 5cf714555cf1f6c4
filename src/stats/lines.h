// The lines of the statistics file and of the trace: one JSON object each, with its newline. All
// begin with their kind, the run's id and the time of day of what they tell.
// Times in milliseconds unless a name says _s; null where there is nothing to measure.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "stats/profile.h"
#include "stats/report.h"
#include "stats/run_stamp.h"

namespace pagedinfer {

struct Setting {
  std::string name;
  std::variant<bool, int64_t, double, std::string> value;
};

// What ran, as the summary tells it.
struct RunInfo {
  std::string version = {};
  std::string input = {};  // the file of prompts
  std::string model = {};  // its directory
  std::string device = {};
  std::vector<Setting> config = {};     // every setting with the value that was used
  std::vector<std::string> notes = {};  // a sentence per default that was switched off
  int64_t kv_bytes_per_position = 0;
};

// {"kind":"request",...}; a request that failed has its code under "error" and no times.
void append_request_line(std::string& out, const RunStamp& run, const RequestStats& request);

// {"kind":"step",...}
void append_step_line(std::string& out, const RunStamp& run, const StepStats& step);

// {"kind":"profile",...}, of a run that has lasted `now` seconds
void append_profile_line(std::string& out, const RunStamp& run, double now, const Profile& profile);

// {"kind":"summary",...}
void append_summary_line(std::string& out, const RunStamp& run, const RunInfo& info,
                         const Summary& summary);

}  // namespace pagedinfer
