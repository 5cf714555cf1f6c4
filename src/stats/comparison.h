// What several configurations have measured in turn, side by side.
#pragma once

#include <string>
#include <vector>

#include "stats/paired_ratio.h"
#include "stats/report.h"

namespace pagedinfer {

struct ComparedRuns {
  std::string flags = {};
  std::vector<Summary> runs = {};  // the i-th runs of all configurations are one round
};

// REQUIRES of all below: there are runs, as many of each configuration.

// The run of the median duration; of an even number the faster one of the two in the middle.
size_t median_run(const ComparedRuns& runs);

// Of each configuration but the first, and each number that has one: its ratio to the first.
struct RatioToFirst {
  size_t of = 0;            // the configuration, from 0
  std::string figure = {};  // as JSON calls it
  std::string label = {};   // as the table calls it
  PairedRatio ratio = {};
};
std::vector<RatioToFirst> ratios_to_first(const std::vector<ComparedRuns>& all);

// Lines with a newline each: the flags, the medians and the ratios.
std::string comparison_table(const std::vector<ComparedRuns>& all);

}  // namespace pagedinfer
