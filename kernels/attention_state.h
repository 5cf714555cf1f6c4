// The state of a softmax over part of a row's keys, and how two states are combined (Milakov and
// Gimelshein 2018, "Online normalizer calculation for softmax").
#pragma once

#include "kernels/exact_math.h"

namespace pagedinfer::kernels {

// max is the largest score, sum is the sum of exp(score - max). The rows of V, summed with the same
// weights, are kept beside it: the row's output before normalized(). Without a visible key: max is
// -infinity, sum and the output are 0.
struct AttentionState {
  float max, sum;
};

// Combining two states computes total = total * keep + part * add, for the sums and for each
// dimension of the outputs.
struct CombineScales {
  float keep, add;
};

// Adds `part` to `total`; combined() then adds each dimension of the outputs. exp_of is the
// exponential in the base of the scores (e or 2).
template <class Exp>
KERNEL_HD CombineScales combine(AttentionState& total, AttentionState part, Exp exp_of) {
  if (part.sum == 0.0f) return {1.0f, 0.0f};  // no visible key
  const float max = total.max > part.max ? total.max : part.max;
  const CombineScales scales = {exp_of(sub_rn(total.max, max)), exp_of(sub_rn(part.max, max))};
  total.max = max;
  total.sum = add_rn(mul_rn(total.sum, scales.keep), mul_rn(part.sum, scales.add));
  return scales;
}

KERNEL_HD inline float combined(float total, float part, CombineScales scales) {
  return add_rn(mul_rn(total, scales.keep), mul_rn(part, scales.add));
}

// The row's final output. A query that sees no key (sum = 0) gets 0.
KERNEL_HD inline float normalized(float out, float sum) {
  return sum == 0.0f ? 0.0f : div_rn(out, sum);
}

}  // namespace pagedinfer::kernels
