// float32 arithmetic that no compiler may fuse or reorder, so that every kernel and the CPU give
// the same bits. On the host this holds with -ffp-contract=off.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

#ifndef __CUDA_ARCH__
#include <bit>
#include <cmath>
#endif

namespace pagedinfer::kernels {

#ifdef __CUDA_ARCH__
KERNEL_HD inline float add_rn(float a, float b) { return __fadd_rn(a, b); }
KERNEL_HD inline float sub_rn(float a, float b) { return __fsub_rn(a, b); }
KERNEL_HD inline float mul_rn(float a, float b) { return __fmul_rn(a, b); }
KERNEL_HD inline float div_rn(float a, float b) { return __fdiv_rn(a, b); }
KERNEL_HD inline double add_rn(double a, double b) { return __dadd_rn(a, b); }
KERNEL_HD inline double mul_rn(double a, double b) { return __dmul_rn(a, b); }
KERNEL_HD inline uint32_t bits_of_float(float x) { return __float_as_uint(x); }
KERNEL_HD inline float float_of_bits(uint32_t x) { return __uint_as_float(x); }
#else
KERNEL_HD inline float add_rn(float a, float b) { return a + b; }
KERNEL_HD inline float sub_rn(float a, float b) { return a - b; }
KERNEL_HD inline float mul_rn(float a, float b) { return a * b; }
KERNEL_HD inline float div_rn(float a, float b) { return a / b; }
KERNEL_HD inline double add_rn(double a, double b) { return a + b; }
KERNEL_HD inline double mul_rn(double a, double b) { return a * b; }
KERNEL_HD inline uint32_t bits_of_float(float x) { return std::bit_cast<uint32_t>(x); }
KERNEL_HD inline float float_of_bits(uint32_t x) { return std::bit_cast<float>(x); }
#endif

// a * b, and a * b + c rounded once, with denormal operands and results zero.
#ifdef __CUDA_ARCH__
KERNEL_HD inline float mul_ftz(float a, float b) {
  float y;
  asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
KERNEL_HD inline float fma_ftz(float a, float b, float c) {
  float y;
  asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(a), "f"(b), "f"(c));
  return y;
}
#else
inline float without_denormals(float x) {
  return (bits_of_float(x) & 0x7fffffff) < 0x00800000 ? float_of_bits(bits_of_float(x) & 0x80000000)
                                                      : x;
}
inline float mul_ftz(float a, float b) {
  return without_denormals(without_denormals(a) * without_denormals(b));
}
inline float fma_ftz(float a, float b, float c) {
  return without_denormals(
      std::fma(without_denormals(a), without_denormals(b), without_denormals(c)));
}
#endif

// x limited to [-limit, limit]. NaN stays.
KERNEL_HD inline float limited(float x, float limit) {
  const float below = x > limit ? limit : x;
  return below < -limit ? -limit : below;
}

// exp(x) = 2^n * (1 + exp_rest), where n_bits is n in the place of the exponent.
struct ReducedExp {
  uint32_t n_bits;
  float exp_rest;
};
KERNEL_HD inline ReducedExp reduce_exp(float x) {
  const float round = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = add_rn(mul_rn(x, 0x1.715476p+0f), round);
  const float n = sub_rn(shifted, round);
  const float rest = sub_rn(sub_rn(x, mul_rn(n, 0x1.62e4p-1f)), mul_rn(n, 0x1.7f7d1cp-20f));
  float poly = 0x1.6ac6b2p-10f;
  poly = add_rn(mul_rn(poly, rest), 0x1.123dep-7f);
  poly = add_rn(mul_rn(poly, rest), 0x1.555858p-5f);
  poly = add_rn(mul_rn(poly, rest), 0x1.55548cp-3f);
  poly = add_rn(mul_rn(poly, rest), 0x1.fffffcp-2f);
  return {bits_of_float(shifted) << 23, add_rn(rest, mul_rn(mul_rn(rest, rest), poly))};
}

// exp(x) by range reduction and a polynomial: the same operations as ops/cpu/vector_math.h, so the
// same bits.
KERNEL_HD inline float exact_exp(float x) {
  if (x != x) return x;
  if (x < -0x1.5d589ep+6f) return 0.0f;  // below the smallest normal number
  if (x > 0x1.62e42ep+6f) return float_of_bits(0x7f800000);
  const ReducedExp reduced = reduce_exp(x);
  return float_of_bits(bits_of_float(add_rn(1.0f, reduced.exp_rest)) + reduced.n_bits);
}

// tanh(x): the same operations as ops/cpu/vector_math.h, so the same bits.
KERNEL_HD inline float exact_tanh(float x) {
  const uint32_t sign = bits_of_float(x) & 0x80000000u;
  const float size = float_of_bits(bits_of_float(x) & 0x7fffffffu);
  if (size < 0.5f) {
    const float square = mul_rn(size, size);
    float poly = -0x1.b5f2cp-8f;
    poly = add_rn(mul_rn(poly, square), 0x1.5d5142p-6f);
    poly = add_rn(mul_rn(poly, square), -0x1.b9959ap-5f);
    poly = add_rn(mul_rn(poly, square), 0x1.110f62p-3f);
    poly = add_rn(mul_rn(poly, square), -0x1.555552p-2f);
    const float y = add_rn(size, mul_rn(size, mul_rn(square, poly)));
    return float_of_bits(bits_of_float(y) | sign);
  }
  const float clamped = size > 10.0f ? 10.0f : size;
  const ReducedExp reduced = reduce_exp(add_rn(clamped, clamped));
  const float power = float_of_bits(reduced.n_bits + 0x3f800000u);
  const float expm1 = add_rn(mul_rn(power, reduced.exp_rest), sub_rn(power, 1.0f));
  return float_of_bits(bits_of_float(div_rn(expm1, add_rn(expm1, 2.0f))) | sign);
}

// cap * tanh(x / cap)
KERNEL_HD inline float softcap(float x, float cap) {
  return mul_rn(exact_tanh(div_rn(x, cap)), cap);
}

struct CosSin {
  float cos, sin;
};

// Within 0.5000001 ulp for |angle| < 2^24: the same operations as the CPU backend's rope table, so
// the same bits.
KERNEL_HD inline CosSin cos_sin(float angle) {
  const double round = 0x1.8p52, x = angle;
  const double shifted = add_rn(mul_rn(x, 0x1.45f306dc9c883p-1), round);
  const double n = add_rn(shifted, -round);
  // pi / 2 in three parts; n times either of the first two is exact.
  const double rest =
      add_rn(add_rn(add_rn(x, -mul_rn(n, 0x1.921fb544p+0)), -mul_rn(n, 0x1.0b4611a6p-34)),
             -mul_rn(n, 0x1.3198a2e037073p-69));
  const double square = mul_rn(rest, rest);
  double sin = 1, cos = 1;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int k = 18; k >= 2; k -= 2) {
    sin = add_rn(1.0, -mul_rn(mul_rn(square, sin), 1.0 / (k * (k + 1))));
    cos = add_rn(1.0, -mul_rn(mul_rn(square, cos), 1.0 / (k * (k - 1))));
  }
  sin = mul_rn(sin, rest);
  const float s = static_cast<float>(sin), c = static_cast<float>(cos);
  switch (static_cast<int64_t>(n) & 3) {
    case 0: return {c, s};
    case 1: return {-s, c};
    case 2: return {-c, -s};
    default: return {s, -c};
  }
}

}  // namespace pagedinfer::kernels
