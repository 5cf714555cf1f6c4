// What a run writes into its statistics, its trace and its summary: objects of JSON, each on a
// line. Each begins with the run's id and the time of day of the event. The numbers are those of
// stats/statistics.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/json.h"
#include "core/request.h"
#include "stats/profile.h"
#include "stats/report.h"

namespace pagedinfer {

// Identifies a run in its statistics lines and converts its clock to the time of day.
struct RunStamp {
  std::string id = {};
  double began = 0;  // when the run's clock was 0, in seconds since 1970 (UTC)
};

// `random` distinguishes runs that begin at the same time.
RunStamp make_run_stamp(double began, uint64_t random);

// Seconds since 1970 in UTC by ISO 8601: 1732268463.25 is "2024-11-22T09:41:03.250Z".
std::string time_of_day(double seconds);

struct ConfigEntry {
  using Value = std::variant<std::nullptr_t, bool, int64_t, double, std::string,
                             std::vector<std::string>, std::vector<TokenId>>;
  std::string name;
  Value value;
};

// What the summary says of the run besides measurements.
struct RunInfo {
  std::string version = {};
  std::string input = {};  // the file of prompts
  std::string model = {};  // its directory
  std::string device = {};
  std::vector<ConfigEntry> config = {};  // every setting with the value that was used
  std::vector<std::string> notes = {};   // one sentence for each default that was not used
};

// A request, and a step: all lines have the same keys, whose values are neither lists nor objects.
void append_request_line(std::string& out, const RunStamp& run, const RequestStats& request);
void append_step_line(std::string& out, const RunStamp& run, const StepStats& step);

// The parts of the summary: its settings as an object, and its measurements as fields of the
// object that `json` is in.
void add_config(JsonWriter& json, const std::vector<ConfigEntry>& config);
void add_measurements(JsonWriter& json, const Summary& summary);

void append_summary(std::string& out, const RunStamp& run, const RunInfo& info,
                    const Summary& summary, const std::optional<Profile>& profile);

}  // namespace pagedinfer
