// Rows of int8 with a scale, as docs/numerics.md defines them. The bits are those of the CPU
// backend, which flushes denormals to zero.
#pragma once

#include "kernels/exact_math.h"

namespace pagedinfer::kernels {

// The magnitude of x as an integer. Integers of larger magnitudes are larger; those of numbers that
// are not finite are the largest.
KERNEL_HD inline uint32_t magnitude_of(float x) { return bits_of_float(x) & 0x7fffffff; }

// The scale of a row, given the largest magnitude_of() its numbers.
KERNEL_HD inline float int8_scale(uint32_t largest) {
  constexpr uint32_t kInfinity = 0x7f800000;
  constexpr float kMinNormal = 0x1p-126f;
  if (largest >= kInfinity) return float_of_bits(0x7fc00000);
  const float quotient = div_rn(float_of_bits(largest), 127.0f);
  return quotient >= kMinNormal ? quotient : 1.0f;
}

// A number of a row with this scale.
KERNEL_HD inline int8_t to_int8(float x, float scale) {
  if (scale != scale || magnitude_of(x) < 0x00800000) return 0;
  const float round = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = add_rn(div_rn(x, scale), round);
  return static_cast<int8_t>(static_cast<int32_t>(bits_of_float(shifted)) -
                             static_cast<int32_t>(bits_of_float(round)));
}

// Four int8, the first in the lowest byte, as the pairs of numbers whose differences they are, each
// pair in one word, the first in the lower half. As bfloat16 (128 + the lower seven bits, 128 or
// 256) or as float16 (1024 + 128 + number, 1024 + 128): exact, without conversions of integers,
// which are slow.
struct Int8Pairs {
  uint32_t minuend[2], subtrahend[2];
};
KERNEL_HD constexpr uint32_t spread_bytes(uint32_t two) {
  return (two & 0xff) | (two & 0xff00) << 8;
}
KERNEL_HD constexpr Int8Pairs int8_as_bf16(uint32_t four) {
  Int8Pairs pairs = {};
  for (int i = 0; i < 2; ++i) {
    const uint32_t two = spread_bytes(four >> 16 * i);
    pairs.minuend[i] = (two & 0x007f007f) | 0x43004300;
    pairs.subtrahend[i] = (two & 0x00800080) | 0x43004300;
  }
  return pairs;
}
KERNEL_HD constexpr Int8Pairs int8_as_f16(uint32_t four) {
  Int8Pairs pairs = {};
  for (int i = 0; i < 2; ++i) {
    pairs.minuend[i] = (spread_bytes(four >> 16 * i) ^ 0x00800080) | 0x64006400;
    pairs.subtrahend[i] = 0x64806480;
  }
  return pairs;
}

}  // namespace pagedinfer::kernels
