// Numbers of rows that are treated as one: decode steps are padded to a bucket, and a product's
// algorithm is chosen for one.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace pagedinfer {

// Rounds `count` up to a multiple of max(min_step, p / shares), where p is `count` rounded up to a
// power of two.
constexpr int64_t share_bucket(int64_t count, int64_t shares, int64_t min_step) {
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
  const int64_t step = std::max(min_step, power / shares);
  return (count + step - 1) / step * step;
}

// Rounds a number of rows up to 1, 2, 4, 8, a multiple of 8, above 256 a multiple of 16, and so on.
constexpr int64_t rows_bucket(int64_t rows) {
  return rows <= 8 ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)))
                   : share_bucket(rows, 32, 8);
}

// The smallest number of rows in a bucket. REQUIRES: rows_bucket(bucket) == bucket.
constexpr int64_t min_rows_of(int64_t bucket) {
  if (bucket <= 8) return bucket / 2 + 1;
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bucket)));
  return bucket - std::max<int64_t>(8, power / 32) + 1;
}

// The buckets of 1 to max_rows rows, in ascending order.
inline std::vector<int64_t> buckets_up_to(int64_t max_rows) {
  std::vector<int64_t> buckets;
  for (int64_t rows = 1; rows <= max_rows; rows = buckets.back() + 1) {
    buckets.push_back(rows_bucket(rows));
  }
  return buckets;
}

}  // namespace pagedinfer
