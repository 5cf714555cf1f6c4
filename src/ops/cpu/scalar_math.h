// What is computed once per step or per token and not per element: in double, with multiplication
// and addition only, so that one float comes out on every processor (libm picks its variant by
// processor). Rounded to float the results are within 0.5000001 ulp.
#pragma once
#include <cstdint>

namespace pagedinfer {
namespace {

double log_double(double x) {                                          // a positive normal number
  int64_t bits = __builtin_bit_cast(int64_t, x) - 0x3fe6a09e667f3bcd;  // sqrt(1/2)
  const int exponent = bits >> 52;
  bits = (bits & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd;
  const double mantissa = __builtin_bit_cast(double, bits);  // from sqrt(1/2) to sqrt(2)
  const double s = (mantissa - 1) / (mantissa + 1), s2 = s * s;
  double series = 0;
  for (int k = 23; k >= 3; k -= 2) series = s2 * (series + 1.0 / k);
  // ln 2 in two parts; the exponent times the first is exact.
  return exponent * 0x1.62e42fee00000p-1 +
         (2 * s + (2 * s * series + exponent * 0x1.a39ef35793c76p-33));
}

double exp_double(double x) {  // a normal result
  const double round = 0x1.8p52, shifted = x * 0x1.71547652b82fep+0 + round, n = shifted - round;
  const double rest = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
  double series = 1;
  for (int k = 14; k >= 1; --k) series = 1 + rest * series * (1.0 / k);
  return __builtin_bit_cast(
      double, __builtin_bit_cast(int64_t, series) + (__builtin_bit_cast(int64_t, shifted) << 52));
}

float log_float(float x) { return log_double(x); }
float pow_float(float base, float exponent) { return exp_double(exponent * log_double(base)); }

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

// The angle is rounded to float32 first, as the reference implementation does.
void rope_table_row(int position, const float* inv_freq, int half, float* cos, float* sin) {
  for (int i = 0; i < half; ++i) {
    const SinCos value = sin_cos(float(position) * inv_freq[i]);
    cos[i] = value.cos;
    sin[i] = value.sin;
  }
}

}  // namespace
}  // namespace pagedinfer
