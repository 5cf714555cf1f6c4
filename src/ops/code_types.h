#pragma once

#include <cstdint>

namespace pagedinfer {

// What a code of 4 bits stands for, before its scale: itself, or twice the value of e2m1 (a sign
// and 0, 0.5, 1, 1.5, 2, 3, 4 or 6), which is an integer up to 12.
enum class CodeValues : uint8_t { kUniform, kFp4 };

// The type of scales. kE8M0: powers of two, by their exponent.
enum class CodeScales : uint8_t { kF32, kBF16, kF16, kE8M0 };

}  // namespace pagedinfer
