// Codes in registers: their numbers without a sign, their scales and zero points, and the
// sums of products with them.
#pragma once

#include "ops/cpu/int4_layout.h"
#include "ops/cpu/vector.h"

namespace pagedinfer {
namespace {

using NativeCodes = i32x16::Native;  // a register of bytes; a lane is four columns of an output
typedef uint16_t Words __attribute__((vector_size(sizeof(NativeCodes))));

FORCE_INLINE NativeCodes load_codes(const uint8_t* from) { return *(const i32x16::InMemory*)from; }
FORCE_INLINE NativeCodes lower_halves(NativeCodes codes) { return codes & 0x0f0f0f0f; }
FORCE_INLINE NativeCodes upper_halves(NativeCodes codes) { return codes >> 4 & 0x0f0f0f0f; }

// Codes in bytes to numbers without a sign.
template <CodeValues kValues>
FORCE_INLINE NativeCodes numbers_of(NativeCodes codes) {
  if constexpr (kValues != CodeValues::kFp4 && kValues != CodeValues::kTable) {
    return codes;
  } else {
    const uint8_t* const all = kValues == CodeValues::kFp4 ? kFp4Numbers : kTableNumbers;
#if defined(__AVX512F__)
    const __m128i table = _mm_loadu_si128((const __m128i*)all);
    return (NativeCodes)_mm512_shuffle_epi8(_mm512_maskz_broadcast_i32x4(-1, table),
                                            (__m512i)codes);
#elif defined(__AVX2__)
    const __m128i table = _mm_loadu_si128((const __m128i*)all);
    return (NativeCodes)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), (__m256i)codes);
#else
    uint8_t bytes[sizeof codes];
    memcpy(bytes, &codes, sizeof codes);
    for (uint8_t& byte : bytes) byte = all[byte];
    memcpy(&codes, bytes, sizeof codes);
    return codes;
#endif
  }
}
// The numbers without a sign of one half of eight columns, from byte `at` of the half on.
template <CodeValues kValues, int kHalf>
FORCE_INLINE NativeCodes numbers_at(const uint8_t* eight, int at) {
  if constexpr (kValues == CodeValues::kBytes) {
    return load_codes(eight + kHalf * kInt4EightBytes + at);
  } else {
    const NativeCodes both = load_codes(eight + at);
    const NativeCodes half = kHalf ? upper_halves(both) : lower_halves(both);
    const uint8_t* const high = eight + kInt4EightBytes + at % 64;
    if constexpr (kValues == CodeValues::kUniform5) {
      return half | (load_codes(high) >> (at / 64 + 4 * kHalf) & 0x01010101) << 4;
    } else if constexpr (kValues == CodeValues::kUniform6) {
      return half | (load_codes(high + 64 * kHalf) >> at / 64 * 2 & 0x03030303) << 4;
    } else {
      return numbers_of<kValues>(half);
    }
  }
}

// The sums of two products of integers of 16 bits in each lane. Where the upper half of a is 0, the
// product of the lower halves.
FORCE_INLINE NativeCodes multiply_words(NativeCodes a, NativeCodes b) {
#if defined(__AVX512F__)
  return (NativeCodes)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (NativeCodes)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
  return (NativeCodes)_mm_madd_epi16((__m128i)a, (__m128i)b);
#endif
}

// sum += multiply_words(a, b).
FORCE_INLINE void add_words(NativeCodes& sum, NativeCodes a, NativeCodes b) {
#if defined(__AVX512VNNI__)
  asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#else
  sum += multiply_words(a, b);
#endif
}

// Two integers of 16 bits in every lane.
FORCE_INLINE NativeCodes repeat_pair(const int16_t* two) {
  int32_t pair;
  memcpy(&pair, two, sizeof pair);
  return pair - NativeCodes{};
}

#if defined(__AVX2__)
// The upper bytes of integers of 16 bits, with their signs.
FORCE_INLINE NativeCodes words_of(NativeCodes numbers) {
#if defined(__AVX512F__)
  return (NativeCodes)_mm512_srai_epi16((__m512i)numbers, 8);
#else
  return (NativeCodes)_mm256_srai_epi16((__m256i)numbers, 8);
#endif
}
#endif

// sum += four products in each lane, of numbers without a sign, and numbers with one. Without
// kWide, two products must not saturate 16 bits.
template <bool kWide>
FORCE_INLINE void add_fours(NativeCodes& sum, NativeCodes weights, NativeCodes numbers) {
#if defined(__AVX512VNNI__)
  // Inline assembly, because g++ copies sums between the type of the intrinsic's arguments and its
  // own, and runs out of registers.
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(numbers));
#elif defined(__AVX2__)
  if constexpr (kWide) {
    // Bytes at even and odd places become 16 bits.
    sum += multiply_words(weights & 0x00ff00ff, words_of(numbers << 8)) +
           multiply_words(weights >> 8 & 0x00ff00ff, words_of(numbers));
    return;
  }
#endif
#if defined(__AVX512VNNI__)
#elif defined(__AVX512F__)
  const __m512i pairs = _mm512_maddubs_epi16((__m512i)weights, (__m512i)numbers);
  sum += (NativeCodes)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#elif defined(__AVX2__)
  const __m256i pairs = _mm256_maddubs_epi16((__m256i)weights, (__m256i)numbers);
  sum += (NativeCodes)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
  const __m128i w = (__m128i)weights, zero = _mm_setzero_si128();
  const __m128i x = _mm_srai_epi16(_mm_unpacklo_epi8(zero, (__m128i)numbers), 8);
  const __m128 low = _mm_castsi128_ps(_mm_madd_epi16(_mm_unpacklo_epi8(w, zero), x));
  const __m128 high = _mm_castsi128_ps(_mm_madd_epi16(_mm_unpackhi_epi8(w, zero), x));
  sum += (NativeCodes)_mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0))) +
         (NativeCodes)_mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)));
#endif
}

// The same for all registers of a tile's outputs. `four`: the numbers of four columns.
template <bool kWide, int kVectors>
FORCE_INLINE void add_columns(NativeCodes (&sum)[kVectors], const NativeCodes (&weights)[kVectors],
                              const int8_t* four) {
#if defined(__AVX512VNNI__)
  // With a statement of assembly for each register g++ keeps some sums of a tile in memory. A sum
  // is written before the last weights are read.
  static_assert(kVectors == 4);
  typedef int32_t Four __attribute__((aligned(1), may_alias));
  NativeCodes numbers;
  asm("vpbroadcastd %9, %4\n\tvpdpbusd %4, %5, %0\n\tvpdpbusd %4, %6, %1\n\t"
      "vpdpbusd %4, %7, %2\n\tvpdpbusd %4, %8, %3"
      : "+&v"(sum[0]), "+&v"(sum[1]), "+&v"(sum[2]), "+v"(sum[3]), "=&v"(numbers)
      : "v"(weights[0]), "v"(weights[1]), "v"(weights[2]), "v"(weights[3]),
        "m"(*(const Four*)four));
#else
  int32_t number;
  memcpy(&number, four, sizeof number);
  const NativeCodes numbers = number - NativeCodes{};
  for (int v = 0; v < kVectors; ++v) add_fours<kWide>(sum[v], weights[v], numbers);
#endif
}

// Sixteen bytes without a sign as integers of 32 bits.
FORCE_INLINE i32x16 load_bytes(const uint8_t* from) {
  i32x16 r;
#if defined(__AVX512F__)
  r.part[0] = (NativeCodes)_mm512_maskz_cvtepu8_epi32(-1, _mm_loadu_si128((const __m128i*)from));
#elif defined(__AVX2__)
  for (int i = 0; i < 2; ++i) {
    r.part[i] = (NativeCodes)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(from + 8 * i)));
  }
#else
  const __m128i zero = _mm_setzero_si128(), all = _mm_loadu_si128((const __m128i*)from);
  for (int i = 0; i < 4; ++i) {
    const __m128i eight = i < 2 ? _mm_unpacklo_epi8(all, zero) : _mm_unpackhi_epi8(all, zero);
    r.part[i] =
        (NativeCodes)(i % 2 ? _mm_unpackhi_epi16(eight, zero) : _mm_unpacklo_epi16(eight, zero));
  }
#endif
  return r;
}

// Sixteen bytes with a sign as integers of 32 bits.
FORCE_INLINE i32x16 load_signed_bytes(const uint8_t* from) {
  i32x16 r = load_bytes(from);
  for (NativeCodes& part : r.part) part = part << 24 >> 24;
  return r;
}

// 2^(byte - 128); 0 below the smallest normal number; NaN of 255.
FORCE_INLINE f32x16 load_powers(const uint8_t* from) {
  const i32x16 byte = load_bytes(from), one = broadcast(1);
  const i32x16 exponent = byte - (one & (byte > broadcast(0)));
  const f32x16 power = bits_as<f32x16>(shift_left<23>(exponent));
  return select(byte > broadcast(254), bits_as<f32x16>(broadcast(0x7fc00000)), power);
}

// The scales of a panel's outputs as float32.
FORCE_INLINE void widen_scales(CodeScales type, const uint8_t* from, float* to) {
  for (int i = 0; i < kInt8Panel; i += 16) {
    switch (type) {
      case CodeScales::kF32: store(to + i, load_as_float((const float*)from + i)); break;
      case CodeScales::kBF16: store(to + i, load_as_float((const bf16*)from + i)); break;
      case CodeScales::kF16: store(to + i, load_as_float((const f16*)from + i)); break;
      case CodeScales::kE8M0: store(to + i, load_powers(from + i)); break;
    }
  }
}

}  // namespace
}  // namespace pagedinfer
