// Vectors of sixteen floats and the operations on them that the kernels need, with the same bits on
// every instruction set. A vector is an array of native registers (one zmm, two ymm or four xmm),
// because g++ keeps a 64-byte vector type in memory if the processor has no 64-byte register. Only
// files that are compiled once per instruction set include this, so all of it has internal linkage.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "ops/cpu/bf16.h"

#define FORCE_INLINE inline __attribute__((always_inline))

namespace pagedinfer {
namespace {

#if defined(__AVX512F__)
constexpr int kNativeLanes = 16;
constexpr bool kHardwareFma = true;
#elif defined(__AVX2__) && defined(__FMA__)
constexpr int kNativeLanes = 8;
constexpr bool kHardwareFma = true;
#else
constexpr int kNativeLanes = 4;
constexpr bool kHardwareFma = false;
#endif
constexpr int kParts = 16 / kNativeLanes;

template <class T>
struct Vec16 {
  typedef T Native __attribute__((vector_size(4 * kNativeLanes)));
  typedef T InMemory __attribute__((vector_size(4 * kNativeLanes), aligned(1), may_alias));
  Native part[kParts];
};
using f32x16 = Vec16<float>;
using i32x16 = Vec16<int32_t>;

// One register. Inner loops hold their sums as arrays of these: g++ keeps an array of vectors of
// several parts in memory.
using Native = f32x16::Native;
FORCE_INLINE Native load_native(const float* from) { return *(const f32x16::InMemory*)from; }
FORCE_INLINE void store_native(float* to, Native a) { *(f32x16::InMemory*)to = a; }
// The first numbers, or the second ones, of a register of pairs.
FORCE_INLINE Native load_of_pairs(const bf16* from, bool second) {
  using Bits = i32x16::Native;
  const Bits pairs = (Bits)load_native((const float*)from);
  return (Native)(second ? pairs & (int32_t(0xffff0000) - Bits{}) : pairs << 16);
}

#define LANEWISE(op)                                                        \
  template <class T>                                                        \
  FORCE_INLINE Vec16<T> operator op(const Vec16<T>& a, const Vec16<T>& b) { \
    Vec16<T> r;                                                             \
    for (int i = 0; i < kParts; ++i) r.part[i] = a.part[i] op b.part[i];    \
    return r;                                                               \
  }
LANEWISE(+)
LANEWISE(-)
LANEWISE(*)
LANEWISE(/)
LANEWISE(&)
LANEWISE(|)
LANEWISE(^)
#undef LANEWISE

#define COMPARISON(op)                                                                     \
  template <class T>                                                                       \
  FORCE_INLINE i32x16 operator op(const Vec16<T>& a, const Vec16<T>& b) {                  \
    i32x16 r;                                                                              \
    for (int i = 0; i < kParts; ++i) r.part[i] = (i32x16::Native)(a.part[i] op b.part[i]); \
    return r;                                                                              \
  }
COMPARISON(<)
COMPARISON(>)
COMPARISON(>=)
COMPARISON(!=)
#undef COMPARISON

template <class T>
FORCE_INLINE Vec16<T> select(const i32x16& mask, const Vec16<T>& yes, const Vec16<T>& no) {
  Vec16<T> r;
  for (int i = 0; i < kParts; ++i) r.part[i] = mask.part[i] ? yes.part[i] : no.part[i];
  return r;
}

template <int kBits>
FORCE_INLINE i32x16 shift_left(const i32x16& a) {
  i32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = a.part[i] << kBits;
  return r;
}

template <class To, class From>
FORCE_INLINE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  for (int i = 0; i < kParts; ++i) to.part[i] = (typename To::Native)from.part[i];
  return to;
}

template <class T>
FORCE_INLINE Vec16<T> broadcast(T value) {
  Vec16<T> r;
  for (int i = 0; i < kParts; ++i) r.part[i] = value - typename Vec16<T>::Native{};
  return r;
}

template <class T>
FORCE_INLINE Vec16<T> load(const T* from) {
  Vec16<T> r;
  for (int i = 0; i < kParts; ++i) r.part[i] = ((const typename Vec16<T>::InMemory*)from)[i];
  return r;
}

template <class T>
FORCE_INLINE void store(T* to, const Vec16<T>& a) {
  for (int i = 0; i < kParts; ++i) ((typename Vec16<T>::InMemory*)to)[i] = a.part[i];
}

// Stores sixteen integers from -128 to 127 as bytes.
FORCE_INLINE void store_bytes(int8_t* to, const i32x16& a) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm512_maskz_cvtepi32_epi8(-1, (__m512i)a.part[0]);
#elif defined(__AVX2__)
  const __m256i words = _mm256_permute4x64_epi64(
      _mm256_packs_epi32((__m256i)a.part[0], (__m256i)a.part[1]), _MM_SHUFFLE(3, 1, 2, 0));
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
#else
  const __m128i bytes = _mm_packs_epi16(_mm_packs_epi32((__m128i)a.part[0], (__m128i)a.part[1]),
                                        _mm_packs_epi32((__m128i)a.part[2], (__m128i)a.part[3]));
#endif
  _mm_storeu_si128((__m128i*)to, bytes);
}

// Stores past the caches: a line that is written as a whole is not read first. Other threads see it
// after _mm_sfence(). REQUIRES: `to` is 64-byte aligned.
FORCE_INLINE void store_past_caches(float* to, const f32x16& a) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, a.part[0]);
#elif defined(__AVX2__)
  for (int i = 0; i < kParts; ++i) _mm256_stream_ps(to + 8 * i, a.part[i]);
#else
  for (int i = 0; i < kParts; ++i) _mm_stream_ps(to + 4 * i, a.part[i]);
#endif
}

// Stores the first `count` numbers, at most 16.
FORCE_INLINE void store_part(float* to, int64_t count, const f32x16& a) {
  if (count >= 16) return store(to, a);
  float whole[16];
  store(whole, a);
  memcpy(to, whole, count * sizeof(float));
}

// a where a > b, else b. A chain of these waits less than one of comparisons and selections.
FORCE_INLINE f32x16 max(const f32x16& a, const f32x16& b) {
  f32x16 r;
  for (int i = 0; i < kParts; ++i) {
#if defined(__AVX512F__)
    r.part[i] = _mm512_maskz_max_ps(-1, a.part[i], b.part[i]);
#elif defined(__AVX2__)
    r.part[i] = _mm256_max_ps(a.part[i], b.part[i]);
#else
    r.part[i] = _mm_max_ps(a.part[i], b.part[i]);
#endif
  }
  return r;
}
FORCE_INLINE i32x16 max(const i32x16& a, const i32x16& b) {
#if defined(__AVX512F__)
  return {(i32x16::Native)_mm512_maskz_max_epi32(-1, (__m512i)a.part[0], (__m512i)b.part[0])};
#elif defined(__AVX2__)
  i32x16 r;
  for (int i = 0; i < kParts; ++i) {
    r.part[i] = (i32x16::Native)_mm256_max_epi32((__m256i)a.part[i], (__m256i)b.part[i]);
  }
  return r;
#else
  return select(a > b, a, b);
#endif
}

// Loads sixteen values of any weight type as float32. The form with `count` reads only so many and
// pads with +0.
FORCE_INLINE f32x16 load_as_float(const float* from) { return load(from); }
FORCE_INLINE f32x16 load_as_float(const bf16* from) {
  i32x16 r;
#if defined(__AVX512F__)
  r.part[0] =
      (i32x16::Native)_mm512_maskz_cvtepu16_epi32(-1, _mm256_loadu_si256((const __m256i*)from));
  return bits_as<f32x16>(shift_left<16>(r));
#elif defined(__AVX2__)
  for (int i = 0; i < 2; ++i) {
    r.part[i] = (i32x16::Native)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)from + i));
  }
  return bits_as<f32x16>(shift_left<16>(r));
#else
  for (int i = 0; i < 4; ++i) {
    const __m128i eight = _mm_loadu_si128((const __m128i*)from + i / 2), zero = _mm_setzero_si128();
    r.part[i] =
        (i32x16::Native)(i % 2 ? _mm_unpackhi_epi16(zero, eight) : _mm_unpacklo_epi16(zero, eight));
  }
  return bits_as<f32x16>(r);
#endif
}
#if !defined(__F16C__)
FORCE_INLINE i32x16 load_as_integer(const uint16_t* from) {
  i32x16 r;
  const __m128i zero = _mm_setzero_si128();
  for (int i = 0; i < 4; ++i) {
    const __m128i eight = _mm_loadu_si128((const __m128i*)from + i / 2);
    r.part[i] =
        (i32x16::Native)(i % 2 ? _mm_unpackhi_epi16(eight, zero) : _mm_unpacklo_epi16(eight, zero));
  }
  return r;
}
#endif
FORCE_INLINE f32x16 load_as_float(const f16* from) {
#if defined(__AVX512F__)
  f32x16 r;
  r.part[0] = _mm512_maskz_cvtph_ps(-1, _mm256_loadu_si256((const __m256i*)from));
  return r;
#elif defined(__F16C__)
  f32x16 r;
  for (int i = 0; i < 2; ++i) {
    r.part[i] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from + i));
  }
  return r;
#else
  // Adds 112 to the exponent, and once more if it is the largest one (infinity, NaN). A subnormal
  // gets an implicit leading 1, which the subtraction removes.
  const i32x16 half = load_as_integer((const uint16_t*)from);
  const i32x16 sign = shift_left<16>(half & broadcast(0x8000));
  const i32x16 magnitude = shift_left<13>(half & broadcast(0x7fff));
  const i32x16 moved = magnitude + broadcast(112 << 23);
  const f32x16 subnormal = bits_as<f32x16>(moved + broadcast(1 << 23)) - broadcast(0x1p-14f);
  const i32x16 special = moved + broadcast(112 << 23);
  i32x16 r = select(magnitude >= broadcast(0x1f << 23), special, moved);
  r = select(magnitude < broadcast(1 << 23), bits_as<i32x16>(subnormal), r);
  return bits_as<f32x16>(r | sign);
#endif
}
FORCE_INLINE f32x16 load_as_float(const int8_t* from) {
  f32x16 r;
#if defined(__AVX512F__)
  const __m512i wide = _mm512_maskz_cvtepi8_epi32(-1, _mm_loadu_si128((const __m128i*)from));
  r.part[0] = _mm512_maskz_cvtepi32_ps(-1, wide);
#elif defined(__AVX2__)
  for (int i = 0; i < 2; ++i) {
    const __m128i eight = _mm_loadl_epi64((const __m128i*)(from + 8 * i));
    r.part[i] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
  }
#else
  const __m128i zero = _mm_setzero_si128(), all = _mm_loadu_si128((const __m128i*)from);
  for (int i = 0; i < 4; ++i) {
    const __m128i eight = i < 2 ? _mm_unpacklo_epi8(zero, all) : _mm_unpackhi_epi8(zero, all);
    const __m128i four = i % 2 ? _mm_unpackhi_epi16(zero, eight) : _mm_unpacklo_epi16(zero, eight);
    r.part[i] = _mm_cvtepi32_ps(_mm_srai_epi32(four, 24));
  }
#endif
  return r;
}
template <class T>
FORCE_INLINE f32x16 load_as_float(const T* from, int count) {
  T padded[16] = {};
  memcpy(padded, from, count * sizeof(T));
  return load_as_float(padded);
}

// a * b + c with one rounding.
#if defined(__AVX512F__)
FORCE_INLINE __m512 fma_native(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(__AVX2__)
FORCE_INLINE __m256 fma_native(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
#else
// The product of two floats is exact in double. Its sum with c is rounded to odd in double: a value
// rounded to odd with 53 bits then rounds to 24 bits as the exact value does (Boldo and Melquiond
// 2008). The two conversions apply FTZ and DAZ to subnormals as the hardware does.
FORCE_INLINE __m128d sum_rounded_to_odd(__m128d product, __m128d c) {
  const __m128d sum = _mm_add_pd(product, c);
  const __m128d part = _mm_sub_pd(sum, product);
  const __m128d error = _mm_add_pd(_mm_sub_pd(product, _mm_sub_pd(sum, part)), _mm_sub_pd(c, part));
  // If the sum is infinite, the error is NaN and counts as 0.
  const __m128d inexact =
      _mm_or_pd(_mm_cmplt_pd(error, _mm_setzero_pd()), _mm_cmpgt_pd(error, _mm_setzero_pd()));
  const __m128d rounded_up = _mm_and_pd(inexact, _mm_xor_pd(error, sum));  // in the sign bit
  const __m128i toward_zero =
      _mm_sub_epi64(_mm_castpd_si128(sum), _mm_srli_epi64(_mm_castpd_si128(rounded_up), 63));
  const __m128i odd = _mm_or_si128(toward_zero, _mm_srli_epi64(_mm_castpd_si128(inexact), 63));
  return _mm_castsi128_pd(odd);
}
FORCE_INLINE __m128 fma_two(__m128 a, __m128 b, __m128 c) {
  const __m128d product = _mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b));
  return _mm_cvtpd_ps(sum_rounded_to_odd(product, _mm_cvtps_pd(c)));
}
FORCE_INLINE __m128 fma_native(__m128 a, __m128 b, __m128 c) {
  const __m128 low = fma_two(a, b, c);
  const __m128 high = fma_two(_mm_movehl_ps(a, a), _mm_movehl_ps(b, b), _mm_movehl_ps(c, c));
  return _mm_movelh_ps(low, high);
}
#endif
FORCE_INLINE f32x16 fma(const f32x16& a, const f32x16& b, const f32x16& c) {
  f32x16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = fma_native(a.part[i], b.part[i], c.part[i]);
  return r;
}

// The sum of the lanes in a fixed order: lane i + lane i + 8, then i + 4, i + 2, i + 1.
FORCE_INLINE float tree_sum(const f32x16& a) {
  float lane[16];
  store(lane, a);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}

FORCE_INLINE float max_lane(const f32x16& a) {
  float lane[16];
  store(lane, a);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] = lane[i] > lane[i + width] ? lane[i] : lane[i + width];
  }
  return lane[0];
}

// Lane i of the result is lane from(i) of a, or lane from(i) - kNativeLanes of b.
template <int (*from)(int), class V, int... kLane>
FORCE_INLINE V shuffle(const V& a, const V& b, std::integer_sequence<int, kLane...>) {
  return __builtin_shuffle(a, b, i32x16::Native{from(kLane)...});
}
template <int (*from)(int), class V>
FORCE_INLINE V shuffle(const V& a, const V& b) {
  return shuffle<from>(a, b, std::make_integer_sequence<int, kNativeLanes>());
}

// The lane of (a, b) that goes to lane i: in each group of four lanes, the lower or higher halves
// of a and b are interleaved in steps of 1 or 2 lanes.
template <int kHigh, int kBy>
constexpr int interleaved(int i) {
  const int group = i & ~3, j = i & 3;
  return kBy == 1 ? group + 2 * kHigh + j / 2 + j % 2 * kNativeLanes
                  : group + 2 * kHigh + j % 2 + j / 2 * kNativeLanes;
}
// The lane of (a, b) that goes to lane i of the first or second result, when lanes of a whose index
// has the bit kWidth are exchanged with lanes of b whose index has not.
template <int kWidth, int kSecond>
constexpr int exchanged(int i) {
  const bool from_b = i & kWidth;
  if (kSecond) return from_b ? i + kNativeLanes : i + kWidth;
  return from_b ? i - kWidth + kNativeLanes : i;
}

// Instead of std::swap, which has external linkage: if it is not inlined, the linker may use the
// copy of one instruction set for all of them.
template <class T>
FORCE_INLINE void swap_values(T& a, T& b) {
  const T old_a = a;
  a = b;
  b = old_a;
}

template <int kBy>
FORCE_INLINE void interleave(f32x16& a, f32x16& b) {
  for (int p = 0; p < kParts; ++p) {
    const auto low = shuffle<interleaved<0, kBy>>(a.part[p], b.part[p]);
    b.part[p] = shuffle<interleaved<1, kBy>>(a.part[p], b.part[p]);
    a.part[p] = low;
  }
}
template <int kWidth>
FORCE_INLINE void exchange(f32x16& a, f32x16& b) {
  if constexpr (kWidth < kNativeLanes) {
    for (int p = 0; p < kParts; ++p) {
      const auto first = shuffle<exchanged<kWidth, 0>>(a.part[p], b.part[p]);
      b.part[p] = shuffle<exchanged<kWidth, 1>>(a.part[p], b.part[p]);
      a.part[p] = first;
    }
  } else {
    constexpr int kBit = kWidth / kNativeLanes;
    for (int p = 0; p < kParts; ++p) {
      if (!(p & kBit)) swap_values(a.part[p + kBit], b.part[p]);
    }
  }
}

// Loads eight floats from each of two addresses.
FORCE_INLINE f32x16 load_halves(const float* low, const float* high) {
  f32x16 r;
#if defined(__AVX512F__)
  r.part[0] =
      _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(low)), _mm256_loadu_ps(high), 1);
#else
  for (int p = 0; p < kParts; ++p) {
    r.part[p] = ((const f32x16::InMemory*)(p < kParts / 2 ? low : high - 8))[p];
  }
#endif
  return r;
}

// Transposes 16 rows of 16 floats: lane j of column[i] is element i of row j. The loads exchange
// lanes that are 8 apart, which relieves the shuffle port.
FORCE_INLINE void load_transposed(const float* const rows[16], f32x16 column[16]) {
  for (int i = 0; i < 8; ++i) {
    column[i] = load_halves(rows[i], rows[i + 8]);
    column[i + 8] = load_halves(rows[i] + 8, rows[i + 8] + 8);
  }
  for (int i = 0; i < 16; i += 2) interleave<1>(column[i], column[i + 1]);
  for (int i = 0; i < 16; i += 4) {
    interleave<2>(column[i], column[i + 2]);
    interleave<2>(column[i + 1], column[i + 3]);
    swap_values(column[i + 1], column[i + 2]);
  }
  for (int i = 0; i < 16; ++i) {
    if (!(i & 4)) exchange<4>(column[i], column[i + 4]);
  }
}

}  // namespace
}  // namespace pagedinfer
