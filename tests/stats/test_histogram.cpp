#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "stats/histogram.h"

namespace pagedinfer {
namespace {

TEST_CASE("stats: a percentile is within 1 % of the sorted values'") {
  std::mt19937_64 random(7);
  for (int run = 0; run < 50; ++run) {
    const auto count = std::uniform_int_distribution<int>(1, 3000)(random);
    std::lognormal_distribution<double> seconds(-4, run % 5);
    Histogram histogram;
    std::vector<double> values;
    double sum = 0;
    for (int i = 0; i < count; ++i) {
      const double value = std::clamp(seconds(random), 1e-6, 1e6);
      histogram.add(value);
      values.push_back(value);
      sum += value;
    }
    std::sort(values.begin(), values.end());
    for (const double percent : {0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
      const double at_least = percent / 100 * count;
      const auto rank = std::max<size_t>(1, static_cast<size_t>(std::ceil(at_least)));
      const double expected = values[rank - 1];
      CHECK(std::abs(histogram.percentile(percent) - expected) <= 0.0051 * expected);
    }
    CHECK(histogram.count() == count);
    CHECK(histogram.max() == values.back());
    CHECK(histogram.mean() == doctest::Approx(sum / count).epsilon(1e-12));
    double squares = 0;
    for (const double value : values) squares += (value - sum / count) * (value - sum / count);
    CHECK(histogram.deviation() == doctest::Approx(std::sqrt(squares / count)).epsilon(1e-9));
  }
}

TEST_CASE("stats: values beyond the buckets still count") {
  Histogram histogram;
  for (const double value : {0.0, -1.0, 1e-9, 1e12}) histogram.add(value);
  CHECK(histogram.count() == 4);
  CHECK(histogram.percentile(100) == 1e12);
  CHECK(histogram.percentile(50) <= 1.01e-6);
}

TEST_CASE("stats: an empty histogram is all zeros") {
  const Histogram histogram;
  CHECK(histogram.count() == 0);
  CHECK(histogram.mean() == 0);
  CHECK(histogram.deviation() == 0);
  CHECK(histogram.max() == 0);
  CHECK(histogram.percentile(99) == 0);
}

TEST_CASE("stats: a single value is every percentile") {
  Histogram histogram;
  histogram.add(0.25);
  for (const double percent : {0.0, 50.0, 100.0}) CHECK(histogram.percentile(percent) == 0.25);
}

}  // namespace
}  // namespace pagedinfer
