// Operations on one row: reductions, normalisation, activations, rotation, conversions.
#pragma once

#include "ops/cpu/vector_math.h"

namespace pagedinfer {
namespace {

// Loads a vector; if count < 16, its first `count` elements, padded with +0.
template <class T>
FORCE_INLINE f32x16 load_part(const T* from, int64_t count) {
  return count >= 16 ? load_as_float(from) : load_as_float(from, int(count));
}

// y[i] = f(x[i])
template <class T, class F>
FORCE_INLINE void map(const T* x, float* y, int64_t n, F f) {
  for (int64_t i = 0; i < n; i += 16) store_part(y + i, n - i, f(load_part(x + i, n - i)));
}

void exp_row(const float* x, float* y, int64_t n) {
  map(x, y, n, [](const f32x16& a) { return exp(a); });
}
void tanh_row(const float* x, float* y, int64_t n) {
  map(x, y, n, [](const f32x16& a) { return tanh(a); });
}
void scale_row(const float* x, float factor, float* y, int64_t n) {
  const f32x16 by = broadcast(factor);
  map(x, y, n, [&](const f32x16& a) { return a * by; });
}
// x = cap * tanh(x / cap)
void softcap_row(float* x, float cap, int64_t n) {
  const f32x16 wide = broadcast(cap);
  map(x, x, n, [&](const f32x16& a) { return softcap(a, wide); });
}
template <class T>
void widen_row(const T* x, float* y, int64_t n) {
  map(x, y, n, [](const f32x16& a) { return a; });
}
void add_row(float* x, const float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    store_part(x + i, n - i, load_part(x + i, n - i) + load_part(y + i, n - i));
  }
}
// x = fma(factor, y, x)
void add_scaled_row(float* x, const float* y, float factor, int64_t n) {
  const f32x16 by = broadcast(factor);
  for (int64_t i = 0; i < n; i += 16) {
    store_part(x + i, n - i, fma(by, load_part(y + i, n - i), load_part(x + i, n - i)));
  }
}
void fma_row(const float* a, const float* b, const float* c, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    store_part(y + i, n - i,
               fma(load_part(a + i, n - i), load_part(b + i, n - i), load_part(c + i, n - i)));
  }
}

// y += scale * sum; every product and every sum is rounded.
void add_low_rank_row(const float* factors, const float* a, int64_t stride, int64_t rank,
                      float scale, float* y, int64_t n) {
  constexpr int kSums = 8;  // registers: the additions of one sum wait for each other
  constexpr int64_t kColumns = kSums * kNativeLanes;
  int64_t i = 0;
  for (; i + kColumns <= n; i += kColumns) {
    Native sum[kSums] = {};
    for (int64_t k = 0; k < rank; ++k) {
      const Native factor = factors[k] - Native{};
      for (int j = 0; j < kSums; ++j) {
        sum[j] += factor * load_native(a + k * stride + i + j * kNativeLanes);
      }
    }
    for (int j = 0; j < kSums; ++j) {
      float* const to = y + i + j * kNativeLanes;
      store_native(to, load_native(to) + sum[j] * (scale - Native{}));
    }
  }
  for (; i < n; i += 16) {
    f32x16 sum = broadcast(0.0f);
    for (int64_t k = 0; k < rank; ++k) {
      sum = sum + broadcast(factors[k]) * load_part(a + k * stride + i, n - i);
    }
    store_part(y + i, n - i, load_part(y + i, n - i) + sum * broadcast(scale));
  }
}

// Sixteen interleaved sums (lane = index mod 16), then tree_sum().
float sum_row(const float* x, int64_t n) {
  f32x16 sum = broadcast(0.0f);
  for (int64_t i = 0; i < n; i += 16) sum = sum + load_part(x + i, n - i);
  return tree_sum(sum);
}

// The largest finite number, or -infinity.
float largest_of_row(const float* x, int64_t n) {
  const f32x16 infinity = broadcast(__builtin_inff());
  f32x16 largest = broadcast(-__builtin_inff());
  const auto take = [&](const f32x16& a) {
    largest = select((a > largest) & (a < infinity), a, largest);
  };
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) take(load(x + i));
  for (; i < n; ++i) take(broadcast(x[i]));
  return max_lane(largest);
}

// y = exp((x - largest) / temperature), or 0 where x is not finite.
void weights_row(const float* x, float largest, float temperature, float* y, int64_t n) {
  const f32x16 shift = broadcast(largest), divisor = broadcast(temperature);
  const f32x16 infinity = broadcast(__builtin_inff()), zero = broadcast(0.0f);
  map(x, y, n, [&](const f32x16& a) {
    return select((a < infinity) & (a > zero - infinity), exp((a - shift) / divisor), zero);
  });
}

// y = x / sqrt(mean(x^2) + epsilon) * (weight + offset), the square rounded before it is added.
void rms_norm_row(const float* x, const float* weight, float offset, float epsilon, float* y,
                  int64_t n) {
  f32x16 squares = broadcast(0.0f);
  for (int64_t i = 0; i < n; i += 16) {
    const f32x16 a = load_part(x + i, n - i);
    squares = squares + a * a;
  }
  const f32x16 scale = broadcast(1.0f / __builtin_sqrtf(tree_sum(squares) / float(n) + epsilon));
  for (int64_t i = 0; i < n; i += 16) {
    const f32x16 w = load_part(weight + i, n - i) + broadcast(offset);
    store_part(y + i, n - i, load_part(x + i, n - i) * scale * w);
  }
}

// y = x / (1 + exp(-x)) * up
void silu_row(const float* x, const float* up, float* y, int64_t n) {
  const f32x16 one = broadcast(1.0f), zero = broadcast(0.0f);
  for (int64_t i = 0; i < n; i += 16) {
    const f32x16 a = load_part(x + i, n - i);
    store_part(y + i, n - i, a / (one + exp(zero - a)) * load_part(up + i, n - i));
  }
}

// y = gelu(x) * up in the tanh form (Hendrycks and Gimpel 2016), with
// u = sqrt(2/pi) (x + 0.044715 x^3): x/2 (1 + tanh u) = x / (1 + exp(-2u)).
void gelu_tanh_row(const float* x, const float* up, float* y, int64_t n) {
  const f32x16 one = broadcast(1.0f);
  const f32x16 linear = broadcast(-1.5957691216057308f), cubic = broadcast(-0.07135481627260025f);
  for (int64_t i = 0; i < n; i += 16) {
    const f32x16 a = load_part(x + i, n - i);
    const f32x16 minus_2u = a * (linear + cubic * (a * a));
    store_part(y + i, n - i, a / (one + exp(minus_2u)) * load_part(up + i, n - i));
  }
}

// With g = min(x, limit) and u = up limited to [-limit, limit]:
// y = g / (1 + exp(0 - alpha * g)) * (u + 1)
void clamped_swish_row(const float* x, const float* up, float alpha, float limit, float* y,
                       int64_t n) {
  const f32x16 one = broadcast(1.0f), zero = broadcast(0.0f);
  const f32x16 high = broadcast(limit), low = broadcast(-limit), slope = broadcast(alpha);
  for (int64_t i = 0; i < n; i += 16) {
    const f32x16 a = load_part(x + i, n - i), b = load_part(up + i, n - i);
    const f32x16 g = select(a > high, high, a), below = select(b > high, high, b);
    const f32x16 u = select(low > below, low, below);
    store_part(y + i, n - i, g / (one + exp(zero - slope * g)) * (u + one));
  }
}

// x is limited to [-limit, limit].
void limit_row(float* x, float limit, int64_t n) {
  const f32x16 high = broadcast(limit), low = broadcast(-limit);
  map(x, x, n, [&](const f32x16& a) {
    const f32x16 below = select(a > high, high, a);
    return select(low > below, low, below);
  });
}

// Rotates the pair (x[i], x[i + half]) by the angle of cos[i], sin[i].
void rope_row(float* x, const float* cos, const float* sin, int64_t half) {
  for (int64_t i = 0; i < half; i += 16) {
    const int64_t left = half - i;
    const f32x16 a = load_part(x + i, left), b = load_part(x + half + i, left);
    const f32x16 c = load_part(cos + i, left), s = load_part(sin + i, left);
    store_part(x + i, left, a * c - b * s);
    store_part(x + half + i, left, b * c + a * s);
  }
}

// The bits of a bfloat16, to nearest, ties to even, on integers: subnormals are kept, and every NaN
// becomes 0x7fc0.
FORCE_INLINE uint32_t nearest_bf16(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return is_nan ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
void to_bf16_row(const float* x, bf16* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i].bits = nearest_bf16(x[i]);
}

// Rounds to nearest, ties to even, on integers: subnormals of float16 are kept. A number that would
// round beyond the largest one, 65,504, and every NaN become 0x7e00.
void to_f16_row(const float* x, f16* y, int64_t n) {
  constexpr uint32_t kFirstNormal = 0x38800000, kFirstTooLarge = 0x477ff000;  // 2^-14, 65520
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]), size = bits & 0x7fffffff;
    const uint32_t normal = ((size + 0xfff + (size >> 13 & 1)) >> 13) - (112 << 10);
    // A subnormal is a multiple of 2^-24: adding 0.5 rounds it to one.
    const float shifted = __builtin_bit_cast(float, size < kFirstNormal ? size : 0) + 0.5f;
    const uint32_t subnormal = __builtin_bit_cast(uint32_t, shifted) - 0x3f000000;
    const uint32_t half = (bits >> 16 & 0x8000) | (size < kFirstNormal ? subnormal : normal);
    y[i].bits = uint16_t(size < kFirstTooLarge ? half : 0x7e00);
  }
}

// With scale = the largest |x| / 127, or 1 if that is 0: y = x / scale, to nearest, ties to even.
// As integers the magnitudes are in order, and those that are not finite are the largest.
float to_int8_row(const float* x, int8_t* y, int64_t n) {
  i32x16 vector = broadcast(0);
  for (int64_t i = 0; i < n; i += 16) {
    vector = max(bits_as<i32x16>(load_part(x + i, n - i)) & broadcast(INT32_MAX), vector);
  }
  int32_t lane[16], largest = 0;
  store(lane, vector);
  for (const int32_t size : lane) largest = size > largest ? size : largest;
  const float quotient = __builtin_bit_cast(float, largest) / 127.0f;
  const bool is_finite = largest < 0x7f800000;
  const float scale = !is_finite ? __builtin_nanf("") : quotient > 0.0f ? quotient : 1.0f;

  if (!is_finite) {
    memset(y, 0, n);
    return scale;
  }
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  for (int64_t i = 0; i < n; i += 16) {
    const f32x16 shifted = load_part(x + i, n - i) / broadcast(scale) + broadcast(kRound);
    const i32x16 rounded =
        bits_as<i32x16>(shifted) - broadcast(__builtin_bit_cast(int32_t, kRound));
    if (n - i >= 16) {
      store_bytes(y + i, rounded);
    } else {
      int8_t last[16];
      store_bytes(last, rounded);
      memcpy(y + i, last, n - i);
    }
  }
  return scale;
}

}  // namespace
}  // namespace pagedinfer
