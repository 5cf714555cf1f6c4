#pragma once

#include <cstdint>

namespace pagedinfer {

// What the matrices of a model become when it is loaded: their type of computation, or int8.
enum class Quantization : uint8_t { kNone, kInt8 };

}  // namespace pagedinfer
