#pragma once

#include <cstdint>
#include <vector>

namespace pagedinfer {

// The distribution of positive values (seconds) in constant memory: counts in buckets 1 % wide,
// from a microsecond to a month. Count, mean, deviation, minimum and maximum are exact; a
// percentile is within 0.5 % of the exact one. Values outside the buckets count in the nearest
// bucket.
class Histogram {
 public:
  void add(double value);

  int64_t count() const { return count_; }
  double mean() const { return mean_; }
  // The standard deviation of the values added: divides by count(), not by count() - 1.
  double deviation() const;
  double max() const { return max_; }

  // The nearest-rank percentile: the smallest value v such that at least `percent` % of the values
  // are <= v. 0 if there are no values. REQUIRES: 0 <= percent <= 100.
  double percentile(double percent) const;

 private:
  static constexpr int kNumBuckets = 2880;  // 1e-6 s * 1.01^2880 = 32 days

  // On the heap: several histograms would not fit on a small stack.
  std::vector<int64_t> buckets_ = std::vector<int64_t>(kNumBuckets);
  int64_t count_ = 0;
  double mean_ = 0, min_ = 0, max_ = 0;
  double squares_ = 0;  // sum of squared distances from the mean
};

// The distribution of a time, in seconds. REQUIRES of readers: count > 0.
struct Spread {
  int64_t count = 0;
  double mean = 0, deviation = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};
Spread spread_of(const Histogram& histogram);

// The rank, from 1, of a nearest-rank percentile among `count` sorted values.
// REQUIRES: count > 0.
int64_t nearest_rank(double percent, int64_t count);

}  // namespace pagedinfer
