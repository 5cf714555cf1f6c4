#pragma once

#include <cstdint>

namespace pagedinfer {

// The type of a model's matrices after loading: the type of computation, or int8.
enum class Quantization : uint8_t { kNone, kInt8 };

}  // namespace pagedinfer
