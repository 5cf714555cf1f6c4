#pragma once

#include <string>

#include "stats/report.h"

namespace pagedinfer {

// The table that closes a run: lines of at most 80 columns, each ended by a newline.
std::string summary_table(const Summary& summary);

// 1234567 as "1,234,567".
std::string grouped(int64_t number);

// A number with three digits, or all of those before the point.
std::string three_digits(double number);

// Seconds with three digits and the unit that suits them: "850 us", "12.3 ms", "4.56 s",
// "12:34", "3:25:45".
std::string human_seconds(double seconds);

// Whole seconds as "0:07", "12:34", "3:25:45".
std::string clock_time(double seconds);

}  // namespace pagedinfer
