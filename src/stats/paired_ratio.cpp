#include "stats/paired_ratio.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "core/check.h"

namespace pagedinfer {

double student_t(int degrees) {
  constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                               2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                               2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                               2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  CHECK(degrees >= 1);
  if (degrees <= static_cast<int>(std::size(kTable))) return kTable[degrees - 1];
  // The first terms of its expansion about the normal distribution, exact to three digits here.
  constexpr double kNormal = 1.959964;
  return kNormal + (std::pow(kNormal, 3) + kNormal) / (4 * degrees);
}

double median_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

std::optional<PairedRatio> paired_ratio(std::span<const double> of, std::span<const double> to) {
  std::vector<double> ratios;
  double sum = 0;
  for (size_t i = 0; i < of.size(); ++i) {
    if (!(of[i] > 0) || !(to[i] > 0)) return std::nullopt;
    ratios.push_back(of[i] / to[i]);
    sum += std::log(ratios.back());
  }
  const auto count = static_cast<double>(ratios.size());
  const double mean = sum / count;
  PairedRatio ratio = {.median = median_of(ratios), .mean = std::exp(mean)};
  if (ratios.size() < 2) return ratio;
  double squares = 0;
  for (const double r : ratios) squares += std::pow(std::log(r) - mean, 2);
  const double error = std::sqrt(squares / (count - 1) / count);
  const double half = student_t(static_cast<int>(ratios.size()) - 1) * error;
  ratio.low = std::exp(mean - half);
  ratio.high = std::exp(mean + half);
  return ratio;
}

}  // namespace pagedinfer
