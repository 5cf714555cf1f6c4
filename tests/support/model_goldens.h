// What the tests against recorded logits share: reading them, and the distance of two rows.
#pragma once

#include <doctest/doctest.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/request.h"

namespace pagedinfer {

inline std::vector<int32_t> ints(simdjson::dom::element list) {
  std::vector<int32_t> values;
  for (const int64_t value : list) values.push_back(static_cast<int32_t>(value));
  return values;
}

inline std::vector<float> floats(simdjson::dom::element list) {
  std::vector<float> values;
  for (const double value : list) values.push_back(static_cast<float>(value));
  return values;
}

inline double squared_distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    sum += difference * difference;
  }
  return sum;
}

inline float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  float most = 0.0f;
  for (size_t i = 0; i < a.size(); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    most = std::isnan(difference) ? INFINITY : std::max(most, difference);
  }
  return most;
}

inline float largest(const std::vector<float>& row) {
  return largest_difference(row, std::vector<float>(row.size(), 0.0f));
}

inline TokenId best_of(const std::vector<float>& row) {
  return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
}

}  // namespace pagedinfer
