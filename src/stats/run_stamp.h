#pragma once

#include <cstdint>
#include <string>

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

}  // namespace pagedinfer
