#include "stats/histogram.h"

#include <algorithm>
#include <cmath>

namespace pagedinfer {
namespace {

constexpr double kFirst = 1e-6;  // where the first bucket begins
constexpr double kWidth = 1.01;  // the end of a bucket over its begin

}  // namespace

int64_t nearest_rank(double percent, int64_t count) {
  const auto rank = static_cast<int64_t>(std::ceil(percent / 100 * static_cast<double>(count)));
  return std::clamp<int64_t>(rank, 1, count);
}

void Histogram::add(double value) {
  int bucket = 0;
  if (value > kFirst) {
    const double index = std::log(value / kFirst) / std::log(kWidth);
    bucket = static_cast<int>(std::min<double>(index, kNumBuckets - 1));
  }
  ++buckets_[static_cast<size_t>(bucket)];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = count_ == 0 ? value : std::max(max_, value);
  ++count_;
  const double distance = value - mean_;
  mean_ += distance / static_cast<double>(count_);
  squares_ += distance * (value - mean_);
}

double Histogram::deviation() const {
  return count_ == 0 ? 0 : std::sqrt(squares_ / static_cast<double>(count_));
}

double Histogram::percentile(double percent) const {
  if (count_ == 0) return 0;
  int64_t left = nearest_rank(percent, count_);
  if (left == count_) return max_;
  int bucket = 0;
  while (left > buckets_[static_cast<size_t>(bucket)]) {
    left -= buckets_[static_cast<size_t>(bucket)];
    ++bucket;
  }
  // The middle of the bucket, but not outside the exact minimum and maximum.
  return std::clamp(kFirst * std::pow(kWidth, bucket + 0.5), min_, max_);
}

Spread spread_of(const Histogram& histogram) {
  return {.count = histogram.count(),
          .mean = histogram.mean(),
          .deviation = histogram.deviation(),
          .p50 = histogram.percentile(50),
          .p90 = histogram.percentile(90),
          .p99 = histogram.percentile(99),
          .max = histogram.max()};
}

}  // namespace pagedinfer
