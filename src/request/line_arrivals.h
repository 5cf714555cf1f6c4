#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "request/line_json.h"

namespace pagedinfer {

// When a line arrives, in seconds on the clock of the file's arrivals.
struct LineArrival {
  std::optional<double> time = {};  // none: neither the line nor one before it says it
  std::string fault = {};  // a message if the line's own time is before that of an earlier line
};

// The time of an arrival_s; nullopt unless it is a number from 0.
std::optional<double> read_arrival(simdjson::dom::element value);

// Follows the arrivals of a file, line by line. A line that says no time, is not valid, or says a
// time before that of an earlier line arrives with the line before. So every run that reads the
// file, whichever lines it takes, finds the same times.
class LineArrivals {
 public:
  // The next line that is not blank. `number` counts all lines. REQUIRES: kLinePadding readable
  // bytes follow `text`.
  LineArrival add(std::string_view text, int64_t number);

 private:
  std::optional<double> find(std::string_view text);

  LineJson json_ = {};
  std::optional<double> latest_ = {};
  int64_t latest_line_ = 0;  // that says it
};

}  // namespace pagedinfer
