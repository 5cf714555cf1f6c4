// What is between the products gate and up and the product down.
#pragma once

#include <cstdint>

namespace pagedinfer {

// kClampedSwish, with g = min(gate, limit) and u = up limited to [-limit, limit]:
// g / (1 + exp(-alpha * g)) * (u + 1). Of experts only.
enum class Activation : uint8_t { kSilu, kGeluTanh, kClampedSwish };

// The numbers of kClampedSwish.
struct ClampedSwish {
  float alpha = 1.0f, limit = 0.0f;
};

}  // namespace pagedinfer
