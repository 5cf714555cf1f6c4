// exp and tanh of sixteen floats, by multiplications and additions only: an fma would gain little
// accuracy and takes ten times as long in the portable build. Denormal arguments and results are
// zero.
#pragma once
#include "ops/cpu/vector.h"

namespace pagedinfer {
namespace {

struct Reduced {
  f32x16 n;         // integer part of x / ln 2, as a float
  i32x16 n_bits;    // the same shifted into the exponent field
  f32x16 exp_rest;  // exp(x - n ln 2) - 1, for a rest within ln 2 / 2
};

FORCE_INLINE Reduced reduce_exp(const f32x16& x) {
  const f32x16 round = broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const f32x16 shifted = x * broadcast(0x1.715476p+0f) + round;
  const f32x16 n = shifted - round;
  // ln 2 in two parts; n times the first is exact.
  const f32x16 rest = (x - n * broadcast(0x1.62e4p-1f)) - n * broadcast(0x1.7f7d1cp-20f);
  f32x16 poly = broadcast(0x1.6ac6b2p-10f);
  poly = poly * rest + broadcast(0x1.123dep-7f);
  poly = poly * rest + broadcast(0x1.555858p-5f);
  poly = poly * rest + broadcast(0x1.55548cp-3f);
  poly = poly * rest + broadcast(0x1.fffffcp-2f);
  return {n, shift_left<23>(bits_as<i32x16>(shifted)), rest + rest * rest * poly};
}

// exp() of numbers that are not above 0, or NaN.
FORCE_INLINE f32x16 exp_of_negative(const f32x16& x) {
  const Reduced reduced = reduce_exp(x);
  const f32x16 one_to_two = broadcast(1.0f) + reduced.exp_rest;
  f32x16 y = bits_as<f32x16>(bits_as<i32x16>(one_to_two) + reduced.n_bits);
  y = select(x < broadcast(-0x1.5d589ep+6f), broadcast(0.0f), y);  // below the smallest normal
  return select(x != x, x, y);
}

constexpr float kLog2E = 0x1.715476p+0f;

// 2^x of numbers that are not above 0, or NaN, with a relative error of 1.1e-4; 0 below -126.
// A NaN whose lowest 9 bits are 0 stays NaN.
FORCE_INLINE f32x16 exp2_of_negative(const f32x16& x) {
  const f32x16 round = broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const f32x16 shifted = x + round;
  const f32x16 rest = x - (shifted - round);
  f32x16 poly = fma(broadcast(0x1.c2a218p-5f), rest, broadcast(0x1.f00c52p-3f));
  poly = fma(poly, rest, broadcast(0x1.62f5fap-1f));
  poly = fma(poly, rest, broadcast(1.0f));
  const f32x16 y =
      bits_as<f32x16>(bits_as<i32x16>(poly) + shift_left<23>(bits_as<i32x16>(shifted)));
  return select(x < broadcast(-126.0f), broadcast(0.0f), y);
}

// Rounds numbers from 2^-126 to 2^100, 0 and NaN to bfloat16, to nearest, ties to even (Dekker
// 1971; tests compare all mantissas).
FORCE_INLINE f32x16 round_to_bf16(const f32x16& x) {
  const f32x16 wide = x * broadcast(65537.0f);
  return wide - (wide - x);
}

FORCE_INLINE f32x16 exp(const f32x16& x) {
  return select(x > broadcast(0x1.62e42ep+6f), broadcast(__builtin_inff()), exp_of_negative(x));
}

// Below 1/2 an odd polynomial; above, expm1(2|x|) / (expm1(2|x|) + 2).
FORCE_INLINE f32x16 tanh(const f32x16& x) {
  const i32x16 sign = bits_as<i32x16>(x) & broadcast(INT32_MIN);
  const f32x16 size = bits_as<f32x16>(bits_as<i32x16>(x) & broadcast(INT32_MAX));
  const f32x16 square = size * size;
  f32x16 poly = broadcast(-0x1.b5f2cp-8f);
  poly = poly * square + broadcast(0x1.5d5142p-6f);
  poly = poly * square + broadcast(-0x1.b9959ap-5f);
  poly = poly * square + broadcast(0x1.110f62p-3f);
  poly = poly * square + broadcast(-0x1.555552p-2f);
  const f32x16 near = size + size * (square * poly);

  const f32x16 clamped = select(size > broadcast(10.0f), broadcast(10.0f), size);
  const Reduced reduced = reduce_exp(clamped + clamped);
  const f32x16 power = bits_as<f32x16>(reduced.n_bits + broadcast(0x3f800000));
  const f32x16 expm1 = power * reduced.exp_rest + (power - broadcast(1.0f));
  const f32x16 far = expm1 / (expm1 + broadcast(2.0f));
  const f32x16 y = select(size < broadcast(0.5f), near, far);
  return bits_as<f32x16>(bits_as<i32x16>(y) | sign);
}

FORCE_INLINE f32x16 softcap(const f32x16& x, const f32x16& cap) { return tanh(x / cap) * cap; }

}  // namespace
}  // namespace pagedinfer
