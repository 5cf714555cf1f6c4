// Sine and cosine for the rope table, computed in double by multiplication and addition only, so
// that they have the same bits on every processor (libm chooses its code by processor). Rounded to
// float they are within 0.5000001 ulp.
#pragma once
#include <cstdint>

namespace pagedinfer {
namespace {

struct SinCos {
  float sin, cos;
};
SinCos sin_cos(float angle) {  // |angle| < 2^24
  const double round = 0x1.8p52, shifted = angle * 0x1.45f306dc9c883p-1 + round,
               n = shifted - round;
  // pi / 2 in three parts; n times either of the first two is exact.
  const double rest =
      ((angle - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2e037073p-69;
  const double square = rest * rest;
  double sin = 1, cos = 1;
  for (int k = 18; k >= 2; k -= 2) {
    sin = 1 - square * sin * (1.0 / (k * (k + 1)));
    cos = 1 - square * cos * (1.0 / (k * (k - 1)));
  }
  sin *= rest;
  switch (__builtin_bit_cast(int64_t, shifted) & 3) {
    case 0: return {float(sin), float(cos)};
    case 1: return {float(cos), float(-sin)};
    case 2: return {float(-sin), float(-cos)};
    default: return {float(-cos), float(sin)};
  }
}

// The cosines and sines of position * inv_freq[i] for i < half, times `scale`. The angle is rounded
// to float32 first, as in transformers.
void rope_table_row(int position, const float* inv_freq, int half, float scale, float* cos,
                    float* sin) {
  for (int i = 0; i < half; ++i) {
    const SinCos value = sin_cos(float(position) * inv_freq[i]);
    cos[i] = value.cos * scale;
    sin[i] = value.sin * scale;
  }
}

}  // namespace
}  // namespace pagedinfer
