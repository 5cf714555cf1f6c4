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
  std::string fault = {};           // a message if the line's own time is one that it must not say
};

// The time of an arrival_s; nullopt unless it is a number from 0.
std::optional<double> read_arrival(simdjson::dom::element value);

// Follows the arrivals of a file, line by line. A time must not be before that of an earlier line,
// nor more than seven days after it (the first one: after 0), so that no line stops a run for ever.
// A line that says another time or none, or is not valid, arrives with the line before. So every
// run that reads the file, whichever lines it takes, finds the same times.
class LineArrivals {
 public:
  // The next line that is not blank. `number` counts all lines. REQUIRES: kLinePadding readable
  // bytes follow `text`.
  LineArrival add(std::string_view text, int64_t number);

 private:
  std::optional<double> find(std::string_view text);
  std::string expected_instead_of(double time) const;

  LineJson json_ = {};
  std::optional<double> latest_ = {};
  int64_t latest_line_ = 0;  // that says it
};

}  // namespace pagedinfer
