// Products in int8 for AVX-512 with VNNI, whose instruction multiplies four numbers without a sign
// (weights) with four that have one (the input), and adds the products to 32 bits. With few rows
// this is bound by reading the weights, with many by that instruction. Compiled for AVX-512 VNNI.
#include "ops/cpu/bare_loops.h"
#include "ops/cpu/int8_panels.h"
#include "ops/cpu/matmul_int4.h"
#include "ops/cpu/row_tiles.h"

namespace pagedinfer {

namespace {

constexpr int kMaxRows = 6, kVectors = kInt8Panel / 16;

struct VnniTiles {
  using Number = int8_t;

  // The sums of a tile stay in 6 * 4 of 32 registers.
  template <int kRows>
  static __attribute__((noinline)) void tile(const Int8Input<Number>& input, int64_t at,
                                             const PanelGroup& group, float* total) {
    const int8_t* x = input.numbers + at * kInt8Group;
    const uint8_t* w = group.weights;
    const char* prefetched = group.prefetched;
    NativeCodes sum[kRows][kVectors];
    unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
      const NativeCodes first = NativeCodes{} - input.shifts[at + m];
      unrolled<kVectors>([&]<int v>() INLINE_LAMBDA { sum[m][v] = first; });
    });
    for (int i = 0; i < group.fours; ++i, x += kFour, w += kFourBytes) {
      for (int line = 0; line < group.lines; ++line, prefetched += 64) {
        _mm_prefetch(prefetched, _MM_HINT_T1);
      }
      NativeCodes weights[kVectors];
      unrolled<kVectors>(
          [&]<int v>() INLINE_LAMBDA { weights[v] = *(const i32x16::InMemory*)(w + v * 64); });
      unrolled<kRows>(
          [&]<int m>() INLINE_LAMBDA { add_columns<true>(sum[m], weights, x + m * kInt8Group); });
    }
    unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
      const Native scale = input.scales[at + m] - Native{};
      unrolled<kVectors>([&]<int v>() INLINE_LAMBDA {
        float* const to = total + m * kInt8Panel + v * 16;
        const Native before = group.is_first ? Native{} : load_native(to);
        store_native(to, fma_native(__builtin_convertvector(sum[m][v], Native), scale, before));
      });
    });
  }

  static void multiply(const Int8Input<Number>& input, int64_t at, int rows,
                       const PanelGroup& group, float* total) {
    const int tiles = (rows + kMaxRows - 1) / kMaxRows;
    share_prefetches(group, tiles, [&](int i, const PanelGroup& part) {
      const int first = rows * i / tiles, last = rows * (i + 1) / tiles;
      with_rows<kMaxRows>(last - first, [&]<int kRows>() {
        tile<kRows>(input, at + first, part, total + first * kInt8Panel);
      });
    });
  }
};

double bare(const void* numbers, int rounds) {
  run_chains<NativeCodes>(numbers, rounds,
                          [](NativeCodes& sum, NativeCodes a, NativeCodes b)
                              INLINE_LAMBDA { add_fours<true>(sum, a, b); });
  return 2.0 * 4 * kNativeLanes * kBareChains * rounds;
}

void pack(const PackArgs& args) { pack_int8<int8_t>(args, kAvx512Kernels.to_int8); }
void pack_for_codes(const PackArgs& args) { pack_int4(args, kAvx512Kernels.to_int8); }

}  // namespace

constinit const ProductKernels kVnniProduct = {pack, multiply_panels<VnniTiles>, bare,
                                               gather_rows<Int8Input<int8_t>>};
constinit const ProductKernels kVnniInt4Product = {pack_for_codes, multiply_int4_panels<Int4Tiles>,
                                                   bare, gather_rows<Int4Input>};

}  // namespace pagedinfer
