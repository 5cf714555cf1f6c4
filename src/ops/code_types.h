#pragma once

#include <cstdint>

namespace pagedinfer {

// What a code stands for, before its scale. Of 4 bits: itself, twice the value of e2m1 (a sign and
// 0, 0.5, 1, 1.5, 2, 3, 4 or 6), which is an integer up to 12, or an integer of the table of
// IQ4_NL. Of 5, 6 bits: itself. kBytes: an int8 with its sign.
enum class CodeValues : uint8_t { kUniform, kFp4, kTable, kUniform5, kUniform6, kBytes };

// The type of scales. kE8M0: powers of two, by their exponent.
enum class CodeScales : uint8_t { kF32, kBF16, kF16, kE8M0 };

}  // namespace pagedinfer
