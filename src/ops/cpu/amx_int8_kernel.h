// Products in int8 on AMX tiles of 16 rows of 64 bytes. The left operand is the input: 64 columns
// of 16 rows. The right operand is weights in place: a row of a tile is four columns of 16 outputs.
// So a tile of sums is (rows, outputs).
//
// With few rows this is bound by reading the weights. With many, the conversion of the sums of each
// group to float32 takes about as long as the multiplications.
//
// The template argument Tiles is the processor's tiles (amx_matmul.cpp) or, in tests, plain loops.
#pragma once

#include "ops/cpu/int8_panels.h"

namespace pagedinfer {
namespace {

template <class Tiles>
struct AmxInt8Tiles {
  using Number = int8_t;
  static constexpr int kRows = 16;

  // Adds 16 rows to tiles 0 to 3, one for each 16 outputs, and stores them in sums. Tiles 4 and 5
  // hold weights, tile 6 the input.
  static void add_products(const int8_t* x, const PanelGroup& group, int32_t* sums) {
    Tiles::template zero<0>();
    Tiles::template zero<1>();
    Tiles::template zero<2>();
    Tiles::template zero<3>();
    const uint8_t* w = group.weights;
    const char* prefetched = group.prefetched;
    constexpr int kFours = kInt8Step / kFour;
    for (int i = 0; i < group.fours; i += kFours, x += kInt8Step, w += kFours * kFourBytes) {
      for (int line = 0; line < kFours * group.lines; ++line, prefetched += 64) {
        _mm_prefetch(prefetched, _MM_HINT_T1);
      }
      Tiles::template load<6>(x, kInt8Group);
      Tiles::template load<4>(w, kFourBytes);
      Tiles::template multiply_int8<0, 6, 4>();
      Tiles::template load<5>(w + 64, kFourBytes);
      Tiles::template multiply_int8<1, 6, 5>();
      Tiles::template load<4>(w + 128, kFourBytes);
      Tiles::template multiply_int8<2, 6, 4>();
      Tiles::template load<5>(w + 192, kFourBytes);
      Tiles::template multiply_int8<3, 6, 5>();
    }
    constexpr int kBytes = kInt8Panel * sizeof(int32_t);
    Tiles::template store<0>(sums, kBytes);
    Tiles::template store<1>(sums + 16, kBytes);
    Tiles::template store<2>(sums + 32, kBytes);
    Tiles::template store<3>(sums + 48, kBytes);
  }

  static void multiply(const Int8Input<Number>& input, int64_t at, int rows,
                       const PanelGroup& group, float* total) {
    alignas(64) int32_t sums[kRows * kInt8Panel];
    share_prefetches(group, (rows + kRows - 1) / kRows, [&](int i, const PanelGroup& part) {
      const int first = i * kRows, last = rows - first < kRows ? rows : first + kRows;
      add_products(input.numbers + (at + first) * kInt8Group, part, sums);
      for (int m = first; m < last; ++m) {
        const i32x16 shift = broadcast(input.shifts[at + m]);
        const f32x16 scale = broadcast(input.scales[at + m]);
        for (int v = 0; v < kInt8Panel; v += 16) {
          const i32x16 sum = load(sums + (m - first) * kInt8Panel + v) - shift;
          f32x16 products;
          for (int p = 0; p < kParts; ++p) {
            products.part[p] = __builtin_convertvector(sum.part[p], Native);
          }
          float* const to = total + m * kInt8Panel + v;
          store(to, fma(products, scale, part.is_first ? broadcast(0.0f) : load(to)));
        }
      }
    });
  }
};

// Tiles take columns by kInt8Step, to which weights and input are padded.
template <class Tiles>
void matmul_int8_tiles(const MatmulArgs& args) {
  const Tiles configured;
  multiply_panels<AmxInt8Tiles<Tiles>>(args);
}

}  // namespace
}  // namespace pagedinfer
