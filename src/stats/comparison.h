// What several configurations have measured in turn, side by side.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stats/report.h"

namespace pagedinfer {

// By which factor one configuration differs from another.
struct PairedRatio {
  double median = 0;
  double mean = 0;  // geometric
  // The true mean lies between these two with a probability of 95 %, if the logarithms of the
  // ratios are normal. A single pair has none.
  std::optional<double> low = {}, high = {};
};

// The ratios of[i] / to[i] of pairs that were measured one after the other, so that what changes
// slowly on a machine is in both. nullopt if a number is not positive. REQUIRES: both have the same
// number of elements, at least one.
std::optional<PairedRatio> paired_ratio(std::span<const double> of, std::span<const double> to);

// Student's t: a value is above it with a probability of 2.5 %. REQUIRES: degrees >= 1.
double student_t(int degrees);

// Of an even number of values the mean of the two in the middle. REQUIRES: there are some.
double median_of(std::span<const double> values);

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
