#pragma once

#include <string_view>

#include "core/tensor.h"

namespace pagedinfer {

// The middle of made-up weights and how far they go to either side of it.
struct DummyRange {
  float center = 0.0f, amplitude = 0.0f;
};

// Fills a float32, bfloat16 or float16 tensor with made-up weights that every one of these types
// can hold: element i of 256 equally spaced values of the range, rounded to bfloat16, has one
// that depends on the name and on i only.
void fill_dummy(std::string_view name, DummyRange range, Tensor tensor);

}  // namespace pagedinfer
