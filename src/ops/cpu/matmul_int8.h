// Products in int8 for instruction sets without VNNI: bytes are widened to 16 bits, multiplied and
// added in pairs to 32 bits, which is exact. (The instruction that multiplies bytes in pairs
// saturates.)
#pragma once

#include "ops/cpu/bare_loops.h"
#include "ops/cpu/int8_panels.h"
#include "ops/cpu/row_tiles.h"
#include "ops/cpu/rows.h"

namespace pagedinfer {
namespace {

using NativeInt = i32x16::Native;

// Bytes of weights, as many as a register has words. So two lanes of 32 bits belong to an output.
constexpr int kInt8Bytes = 2 * kNativeLanes;
constexpr int kInt8Vectors = kNativeLanes == 16 ? 4 : 2;
constexpr int kInt8TileRows = kNativeLanes == 16 ? 6 : 4;
constexpr int kInt8TileOutputs = kInt8Vectors * kNativeLanes / 2;

FORCE_INLINE NativeInt load_words(const uint8_t* from) {
#if defined(__AVX512F__)
  return (NativeInt)_mm512_maskz_cvtepu8_epi16(-1, _mm256_loadu_si256((const __m256i*)from));
#elif defined(__AVX2__)
  return (NativeInt)_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)from));
#else
  return (NativeInt)_mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i*)from), _mm_setzero_si128());
#endif
}
FORCE_INLINE NativeInt repeat_four(const int16_t* from) {
  int64_t four;
  memcpy(&four, from, sizeof four);
#if defined(__AVX512F__)
  return (NativeInt)_mm512_set1_epi64(four);
#elif defined(__AVX2__)
  return (NativeInt)_mm256_set1_epi64x(four);
#else
  return (NativeInt)_mm_set1_epi64x(four);
#endif
}
FORCE_INLINE NativeInt add_products(NativeInt a, NativeInt b) {
#if defined(__AVX512F__)
  return (NativeInt)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (NativeInt)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
  return (NativeInt)_mm_madd_epi16((__m128i)a, (__m128i)b);
#endif
}

constexpr int even_lane(int i) { return 2 * i; }
constexpr int odd_lane(int i) { return 2 * i + 1; }

struct WordTiles {
  using Number = int16_t;

  // Multiplies kInt8TileOutputs outputs; `total` and `w` begin with the first of them.
  template <int kRows>
  static __attribute__((noinline)) void tile(const Int8Input<Number>& input, int64_t at,
                                             const PanelGroup& group, const uint8_t* w,
                                             float* total) {
    const int16_t* x = input.numbers + at * kInt8Group;
    const char* prefetched = group.prefetched;
    NativeInt sum[kRows][kInt8Vectors];
    unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
      unrolled<kInt8Vectors>([&]<int v>() INLINE_LAMBDA { sum[m][v] = NativeInt{}; });
    });
    for (int i = 0; i < group.fours; ++i, x += kFour, w += kFourBytes) {
      for (int line = 0; line < group.lines; ++line, prefetched += 64) {
        _mm_prefetch(prefetched, _MM_HINT_T1);
      }
      NativeInt weights[kInt8Vectors];
      unrolled<kInt8Vectors>([&]<int v>()
                                 INLINE_LAMBDA { weights[v] = load_words(w + v * kInt8Bytes); });
      unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
        const NativeInt numbers = repeat_four(x + m * kInt8Group);
        unrolled<kInt8Vectors>(
            [&]<int v>() INLINE_LAMBDA { sum[m][v] += add_products(weights[v], numbers); });
      });
    }
    unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
      const Native scale = input.scales[at + m] - Native{};
      const NativeInt shift = input.shifts[at + m] - NativeInt{};
      unrolled<kInt8Vectors / 2>([&]<int pair>() INLINE_LAMBDA {
        float* const to = total + m * kInt8Panel + pair * kNativeLanes;
        const Native before = group.is_first ? Native{} : load_native(to);
        const NativeInt low = sum[m][2 * pair], high = sum[m][2 * pair + 1];
        const NativeInt products =
            shuffle<even_lane>(low, high) + shuffle<odd_lane>(low, high) - shift;
        store_native(to, fma_native(__builtin_convertvector(products, Native), scale, before));
      });
    });
  }

  static void multiply(const Int8Input<Number>& input, int64_t at, int rows,
                       const PanelGroup& group, float* total) {
    constexpr int kAcross = kInt8Panel / kInt8TileOutputs;
    const int tiles = (rows + kInt8TileRows - 1) / kInt8TileRows;
    share_prefetches(group, tiles * kAcross, [&](int i, const PanelGroup& part) {
      const int output = i / tiles * kInt8TileOutputs, t = i % tiles;
      const int first = rows * t / tiles, last = rows * (t + 1) / tiles;
      with_rows<kInt8TileRows>(last - first, [&]<int kRows>() {
        tile<kRows>(input, at + first, part, part.weights + output * kFour,
                    total + first * kInt8Panel + output);
      });
    });
  }
};

// Each lane of 32 bits has two products.
double bare_words(const void* numbers, int rounds) {
  run_chains<NativeInt>(numbers, rounds,
                        [](NativeInt& sum, NativeInt& a, NativeInt b) INLINE_LAMBDA {
                          renew(a);
                          sum += add_products(a, b);
                        });
  return 4.0 * kNativeLanes * kBareChains * rounds;
}

void pack_int8_input(const PackArgs& args) { pack_int8<int16_t>(args, to_int8_row); }

// Interleaves 16 rows of `columns` numbers, a multiple of kInt8Step, as a panel has them.
void interleave_int8(const int8_t* rows, int64_t stride, int64_t columns, uint8_t zero,
                     uint8_t* panel) {
  const i32x16 flipped = broadcast(int32_t(zero * 0x01010101u));  // adds 0 or 128
  for (int64_t column = 0; column < columns; column += kInt8Step) {
    const float* from[16];  // only moved, so any bits will do
    for (int i = 0; i < 16; ++i) from[i] = (const float*)(rows + i * stride + column);
    f32x16 four[16];
    load_transposed(from, four);
    for (int i = 0; i < 16; ++i, panel += kFourBytes) {
      store((int32_t*)panel, bits_as<i32x16>(four[i]) ^ flipped);
    }
  }
}

}  // namespace
}  // namespace pagedinfer
