// Softmax in progress over a row's keys, and the step that joins two of them.
#pragma once

#include "kernels/exact_math.h"

namespace pagedinfer::kernels {

// The largest score, the sum of exp(score - largest); beside it lies that sum over V. Without a
// visible key: (-infinity, 0), 0.
struct AttentionState {
  float largest, sum;
};

// total = total * keep + part * add, for the sums and for every dimension.
struct CombineScales {
  float keep, add;
};

// `exp_of` is the exponential in the base that the scores have.
template <class Exp>
KERNEL_HD CombineScales combine(AttentionState& total, AttentionState part, Exp exp_of) {
  if (part.sum == 0.0f) return {1.0f, 0.0f};  // nothing visible
  const float largest = total.largest > part.largest ? total.largest : part.largest;
  const CombineScales scales = {exp_of(sub_rn(total.largest, largest)),
                                exp_of(sub_rn(part.largest, largest))};
  total.largest = largest;
  total.sum = add_rn(mul_rn(total.sum, scales.keep), mul_rn(part.sum, scales.add));
  return scales;
}

KERNEL_HD inline float combined(float total, float part, CombineScales scales) {
  return add_rn(mul_rn(total, scales.keep), mul_rn(part, scales.add));
}

// sum is 0 only where a query sees nothing.
KERNEL_HD inline float normalized(float out, float sum) {
  return sum == 0.0f ? 0.0f : div_rn(out, sum);
}

}  // namespace pagedinfer::kernels
