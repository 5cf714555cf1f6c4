#pragma once

#include <cstdint>

namespace pagedinfer {

// The 16-bit types in memory: bfloat16, which is the upper half of a float32, and IEEE binary16.
struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

}  // namespace pagedinfer
