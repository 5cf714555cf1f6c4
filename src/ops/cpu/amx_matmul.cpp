// Compiled for AVX-512. The tile instructions are inline assembly, so that the number of a tile can
// be a template argument.
#include "ops/cpu/amx_int4_kernel.h"
#include "ops/cpu/amx_int8_kernel.h"
#include "ops/cpu/amx_kernel.h"

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
};

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
// Super-blocks and numbers of more bits have no tiles yet.
void multiply_codes(const MatmulArgs& args) {
  constexpr int kMaxRows = 8;
  const auto& header = *static_cast<const Int4Header*>(args.weights);
  if (args.last_row - args.first_row <= kMaxRows || !can_use_tiles(header)) {
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
                                                  bare_bytes};
constinit const ProductKernels kAmxInt4Product = {pack_for_codes, multiply_codes, bare_bytes};

}  // namespace pagedinfer
