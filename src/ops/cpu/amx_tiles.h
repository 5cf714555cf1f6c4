// AMX's tiles, for files that are compiled for AVX-512. The instructions are inline assembly, so
// that the number of a tile can be a template argument.
#pragma once

#include "ops/cpu/vector.h"

namespace pagedinfer {
namespace {

// The processor's tiles. While an object lives, all eight have 16 rows of 64 bytes.
class AmxTiles {
 public:
  AmxTiles() {
    // The layout that ldtilecfg reads. The whole struct is the operand, so that the compiler does
    // not drop fields as unused.
    struct {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    static_assert(sizeof config == 64);
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  ~AmxTiles() { asm volatile("tilerelease"); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  template <int kTile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  static void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  // The same for numbers that will not be read again soon: they push nothing out of the first-level
  // cache.
  template <int kTile>
  static void load_once(const void* from, int64_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(from), "r"(stride), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  static void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  // kSums += kLeft * kRight. A row of kRight belongs to a pair of columns of kLeft.
  template <int kSums, int kLeft, int kRight>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kLeft), "i"(kRight));
  }
  // The same for bytes with a sign. A row of kRight belongs to four columns.
  template <int kSums, int kLeft, int kRight>
  static void multiply_int8() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kLeft), "i"(kRight));
  }
  // Rounds 32 numbers from 0 to 1 to bfloat16.
  static void store_rounded(void* to, const f32x16& low, const f32x16& high) {
    __m512 both;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both) : "v"(high.part[0]), "v"(low.part[0]));
    _mm512_storeu_ps(to, both);
  }
};

}  // namespace
}  // namespace pagedinfer
