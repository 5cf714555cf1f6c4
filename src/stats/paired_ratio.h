#pragma once

#include <optional>
#include <span>

namespace pagedinfer {

// By which factor one configuration differs from another.
struct PairedRatio {
  double median = 0;
  double mean = 0;  // geometric
  // Where the true mean is with a probability of 95 %, if the logarithms of the ratios are normal;
  // none of a single pair.
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

}  // namespace pagedinfer
