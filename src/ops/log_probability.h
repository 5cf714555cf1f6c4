#pragma once

#include <cmath>
#include <optional>

#include "core/double_math.h"

namespace pagedinfer {

// The log probabilities of a row of logits, as docs/numerics.md defines them.
class LogProbability {
 public:
  LogProbability() = default;  // of a row without a finite logit
  // `largest` is the largest finite logit, and `sum` the sum of exp(logit - largest) over all.
  LogProbability(float largest, double sum)
      : log_total_(static_cast<double>(largest) + log_double(sum)) {}

  // The log probability of a token with this logit. nullopt: no logit of the row is finite, or this
  // one is NaN or infinity.
  std::optional<float> of(float logit) const {
    if (!log_total_ || !(logit < INFINITY)) return std::nullopt;
    return static_cast<float>(static_cast<double>(logit) - *log_total_);
  }

 private:
  std::optional<double> log_total_ = {};
};

}  // namespace pagedinfer
