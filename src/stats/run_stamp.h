#pragma once

#include <cstdint>
#include <string>

namespace pagedinfer {

// Which run a line of the statistics is of, and what time it was.
struct RunStamp {
  std::string id = {};
  double began = 0;  // seconds since 1970 in UTC when the run's clock was 0
};

// `random` tells runs apart that begin together.
RunStamp make_run_stamp(double began, uint64_t random);

// In UTC, by ISO 8601: 1732268463.25 as "2024-11-22T09:41:03.250Z".
std::string time_of_day(double seconds);

}  // namespace pagedinfer
