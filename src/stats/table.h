#pragma once

#include <string>
#include <string_view>

#include "stats/statistics.h"

namespace pagedinfer {

// The summary table that is printed at the end of a run: lines of at most 80 columns, each with a
// newline.
std::string summary_table(std::string_view model, const Summary& summary);

// Its rows, and their parts.

std::string table_row(std::string_view name, const std::string& text);

// The heading "mean p50 p90 p99 max" and a row below it.
std::string spread_heading();
std::string spread_row(const std::string& name, const Spread& spread);

// A number for people; for `measure` without one, 0.
std::string shown(Unit unit, double number);
double number_of(const Measure& measure);

// 0.1234 is "12.3 %".
std::string percent(double ratio);

// Three significant digits, or all digits before the point if there are more.
std::string three_digits(double number);

// Seconds with three significant digits in a readable unit: "850 us", "12.3 ms", "4.56 s",
// "12:34", "3:25:45".
std::string human_seconds(double seconds);

// Whole seconds as "0:07", "12:34", "3:25:45".
std::string clock_time(double seconds);

}  // namespace pagedinfer
