// Compiled for AVX-512.
#include "ops/cpu/amx_int4_kernel.h"
#include "ops/cpu/amx_int8_kernel.h"
#include "ops/cpu/amx_kernel.h"
#include "ops/cpu/amx_tiles.h"

namespace pagedinfer {

namespace {

// Two by two tiles, as in the products.
template <class Multiply>
double run_bare(const void* numbers, int rounds, int numbers_of_a_row, const Multiply& multiply) {
  const AmxTiles tiles;
  const char* const from = static_cast<const char*>(numbers);
  AmxTiles::zero<0>(), AmxTiles::zero<1>(), AmxTiles::zero<2>(), AmxTiles::zero<3>();
  AmxTiles::load<4>(from, 64), AmxTiles::load<5>(from + 1024, 64);
  AmxTiles::load<6>(from + 2048, 64), AmxTiles::load<7>(from + 3072, 64);
  for (int i = 0; i < rounds; ++i) multiply();
  return 2.0 * 4 * 16 * 16 * numbers_of_a_row * rounds;
}
double bare(const void* numbers, int rounds) {
  return run_bare(numbers, rounds, 32, [] {
    AmxTiles::multiply<0, 6, 4>(), AmxTiles::multiply<1, 6, 5>();
    AmxTiles::multiply<2, 7, 4>(), AmxTiles::multiply<3, 7, 5>();
  });
}
double bare_bytes(const void* numbers, int rounds) {
  return run_bare(numbers, rounds, 64, [] {
    AmxTiles::multiply_int8<0, 6, 4>(), AmxTiles::multiply_int8<1, 6, 5>();
    AmxTiles::multiply_int8<2, 7, 4>(), AmxTiles::multiply_int8<3, 7, 5>();
  });
}

void pack(const PackArgs& args) { pack_tiles(args, kAvx512Kernels.to_bf16); }
// Few rows read codes faster without tiles, and groups of 32 columns fill only half of a tile.
// Super-blocks take two products, so they have more rows; how many has not been measured.
void multiply_codes(const MatmulArgs& args) {
  const auto& header = *static_cast<const Int4Header*>(args.weights);
  const int max_rows = header.sub_group > 0 ? 16 : 8;
  if (args.last_row - args.first_row <= max_rows || !can_use_tiles(header)) {
    return int4_product_of(CpuIsa::kAvx512).multiply(args);
  }
  matmul_int4_tiles<AmxTiles>(args);
}

void pack_bytes(const PackArgs& args) { pack_int8<int8_t>(args, kAvx512Kernels.to_int8); }
void pack_for_codes(const PackArgs& args) { pack_int4(args, kAvx512Kernels.to_int8); }

}  // namespace

constinit const ProductKernels kAmxProduct = {pack, matmul_tiles<AmxTiles, InPlaceWeights>, bare};
constinit const ProductKernels kAmxPanelProduct = {pack, matmul_tiles<AmxTiles, PanelWeights>,
                                                   bare};
constinit const ProductKernels kAmxInt8Product = {pack_bytes, matmul_int8_tiles<AmxTiles>,
                                                  bare_bytes, gather_rows<Int8Input<int8_t>>};
constinit const ProductKernels kAmxInt4Product = {pack_for_codes, multiply_codes, bare_bytes,
                                                  gather_rows<Int4Input>};

}  // namespace pagedinfer
