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
  std::optional<double> time = {};  // none: neither this line nor an earlier one has a time
  std::string fault = {};           // a message if the line's own time is not allowed
};

// The value of an arrival_s; nullopt unless it is a number of at least 0.
std::optional<double> read_arrival(simdjson::dom::element value);

// Follows the arrivals of a file, line by line. A time must not be below the latest time of an
// earlier line, nor more than seven days above it (the first: above 0), so that no line stops a run
// for ever. A line without an allowed time arrives with the previous line. So every run over the
// file finds the same times, whichever lines it takes.
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
  int64_t latest_line_ = 0;  // the line with the latest time
};

}  // namespace pagedinfer
