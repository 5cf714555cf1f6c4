#pragma once

#include <cstdint>
#include <vector>

namespace pagedinfer {

// How positive values (seconds) are spread, in constant memory: counts in buckets 1 % wide
// from a microsecond to a month. Count, mean, deviation, least and largest are exact; a percentile
// is within 0.5 % of the value it stands for, and what lies outside the buckets counts in the
// nearest one.
class Histogram {
 public:
  void add(double value);

  int64_t count() const { return count_; }
  double mean() const { return mean_; }
  // The standard deviation of exactly these values.
  double deviation() const;
  double min() const { return min_; }
  double max() const { return max_; }

  // The nearest-rank percentile: the least value that at least `percent` % of the values do
  // not exceed. 0 when there are none. REQUIRES: 0 <= percent <= 100.
  double percentile(double percent) const;

 private:
  static constexpr int kNumBuckets = 2880;  // 1e-6 s * 1.01^2880 = 32 days

  // Not in the object: several of them are more than a small stack holds.
  std::vector<int64_t> buckets_ = std::vector<int64_t>(kNumBuckets);
  int64_t count_ = 0;
  double mean_ = 0, min_ = 0, max_ = 0;
  double squares_ = 0;  // the sum of the squared distances from the mean
};

// The rank, from 1, of a nearest-rank percentile among `count` sorted values.
// REQUIRES: count > 0.
int64_t nearest_rank(double percent, int64_t count);

}  // namespace pagedinfer
