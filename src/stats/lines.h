// The lines of the statistics file and of the trace: one JSON object each, with a newline. Each
// begins with its kind, the run's id and the time of day of the event. Times are in milliseconds
// unless a key ends in _s; a value that was not measured is null.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/json.h"
#include "core/request.h"
#include "stats/profile.h"
#include "stats/report.h"
#include "stats/run_stamp.h"

namespace pagedinfer {

struct ConfigEntry {
  using Value = std::variant<std::nullptr_t, bool, int64_t, double, std::string,
                             std::vector<std::string>, std::vector<TokenId>>;
  std::string name;
  Value value;
};

// What the summary line says of the run besides measurements.
struct RunInfo {
  std::string version = {};
  std::string input = {};  // the file of prompts
  std::string model = {};  // its directory
  std::string device = {};
  std::vector<ConfigEntry> config = {};  // every setting with the value that was used
  std::vector<std::string> notes = {};   // one sentence for each default that was not used
};

// {"kind":"request",...}; a failed request has its code under "error" and no times.
void append_request_line(std::string& out, const RunStamp& run, const RequestStats& request);

// {"kind":"step",...}
void append_step_line(std::string& out, const RunStamp& run, const StepStats& step);

// {"kind":"profile",...}; `now` is in seconds on the run's clock.
void append_profile_line(std::string& out, const RunStamp& run, double now, const Profile& profile);

// The parts of the summary line: its settings as an object, and its measurements as fields of the
// object that `json` is in.
void add_config(JsonWriter& json, const std::vector<ConfigEntry>& config);
void add_measurements(JsonWriter& json, const Summary& summary);

// {"kind":"summary",...}
void append_summary_line(std::string& out, const RunStamp& run, const RunInfo& info,
                         const Summary& summary);

}  // namespace pagedinfer
