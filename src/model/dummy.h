#pragma once

#include <string_view>

#include "core/tensor.h"

namespace pagedinfer {

// Dummy weights are spread evenly over [center - amplitude, center + amplitude].
struct DummyRange {
  float center = 0.0f, amplitude = 0.0f;
};

// Fills a float32, bfloat16 or float16 tensor with pseudo-random weights. Each is one of 256
// equally spaced values of the range, rounded to bfloat16 so that every type holds it exactly.
// Element i depends on `name` and i only.
void fill_dummy(std::string_view name, DummyRange range, Tensor tensor);

}  // namespace pagedinfer
