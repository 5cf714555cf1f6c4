// Products with bfloat16 weights in panels (bf16_layout.h): the additions, and so the bits, of
// matmul_bf16.h. Weights are widened in registers and used at once for all rows of a tile. A chunk
// of a panel is read from memory for the first tile and from the first-level cache for the others.
#pragma once

#include <type_traits>

#include "ops/cpu/bf16_layout.h"
#include "ops/cpu/matmul_bf16.h"
#include "ops/cpu/row_tiles.h"

namespace pagedinfer {
namespace {

// How a tile shares out the registers, and where its prefetches go.
struct WideTiles {
  static constexpr int kMaxRows = kNativeLanes == 16 ? 6 : kNativeLanes == 8 ? 3 : 1;
  static constexpr int kVectors = 2;  // of outputs
  static constexpr _mm_hint kHint = _MM_HINT_T0;
  static constexpr int kLinesToFirst = 0;  // ahead, that come to the first level from the second
};
// Widens half as many weights for a multiplication, and loads twice as many numbers of x
// (Tuning::tall_tiles).
struct TallTiles {
  static constexpr int kMaxRows = 2 * WideTiles::kMaxRows;
  static constexpr int kVectors = 1;
  static constexpr _mm_hint kHint = _MM_HINT_T1;
  static constexpr int kLinesToFirst = 0;
};
// Beside TallTiles, for rows so few that weights are read more slowly than multiplied.
struct FewRowTiles : WideTiles {
  static constexpr _mm_hint kHint = _MM_HINT_T1;
  static constexpr int kLinesToFirst = 64;
};
constexpr int kFewRows = 2;
// With more rows, weights that stay widened in the cache are faster. With 32 registers they are
// not.
constexpr int kMaxPairRows = kNativeLanes == 16 ? INT32_MAX : kNativeLanes == 8 ? 8 : 0;
constexpr int kFourPairs = 4;                                     // are prefetched together
constexpr int kFourPairLines = kFourPairs * kBf16Panel * 4 / 64;  // cache lines of a panel

// What a tile prefetches while it is computed: `lines` for every four pairs of columns.
struct TilePrefetch {
  const char* at;
  int lines;
};

// Adds `steps` steps of kSumStep columns to the totals of kRows rows of x and the outputs of
// Tiles::kVectors vectors; if `first`, the totals start at +0. Row m of x begins at x + m * kChunk;
// `pairs` and `total` begin with the first of the outputs and have kBf16Panel of them in a row.
template <class Tiles, int kRows>
__attribute__((noinline)) void pair_tile(const float* x, const bf16* pairs, int steps, bool first,
                                         TilePrefetch prefetch, float* total) {
  using Bits = i32x16::Native;
  constexpr int kVectors = Tiles::kVectors;
  const Bits upper = int32_t(0xffff0000) - Bits{};
  for (int step = 0; step < steps; ++step, first = false) {
    Native sum[2][kRows][kVectors];  // of the even and odd columns
    for (int m = 0; m < kRows; ++m) {
      for (int v = 0; v < kVectors; ++v) sum[0][m][v] = sum[1][m][v] = Native{};
    }
    for (int four = 0; four < kSumStep / 2 / kFourPairs; ++four) {
      for (int i = 0; i < prefetch.lines; ++i, prefetch.at += 64) {
        _mm_prefetch(prefetch.at, Tiles::kHint);
      }
#pragma GCC unroll 4
      for (int pair = 0; pair < kFourPairs; ++pair, x += 2, pairs += 2 * kBf16Panel) {
        Bits both[kVectors];
        for (int v = 0; v < kVectors; ++v) {
          if constexpr (Tiles::kLinesToFirst > 0) {
            const bf16* const ahead = pairs + v * 2 * kNativeLanes + Tiles::kLinesToFirst * 32;
            _mm_prefetch((const char*)ahead, _MM_HINT_T0);
          }
          both[v] = (Bits)load_native((const float*)(pairs + v * 2 * kNativeLanes));
        }
        for (int odd = 0; odd < 2; ++odd) {
          Native w[kVectors];
          for (int v = 0; v < kVectors; ++v) {
            w[v] = (Native)(odd ? both[v] & upper : both[v] << 16);
          }
          for (int m = 0; m < kRows; ++m) {
            const Native factor = x[m * kChunk + odd] - Native{};
            for (int v = 0; v < kVectors; ++v) {
              sum[odd][m][v] = fma_native(factor, w[v], sum[odd][m][v]);
            }
          }
        }
      }
    }
    for (int m = 0; m < kRows; ++m) {
      for (int v = 0; v < kVectors; ++v) {
        float* const to = total + m * kBf16Panel + v * kNativeLanes;
        const Native before = first ? Native{} : load_native(to);
        store_native(to, before + (sum[0][m][v] + sum[1][m][v]));
      }
    }
  }
}

// A chunk of a panel times some rows of x. Its tiles share the prefetching of as many bytes from
// `prefetched` on, evenly (shared_lines()).
template <class Tiles>
void multiply_chunk(const float* x, int rows, const bf16* pairs, int steps, bool first,
                    const char* prefetched, float* total) {
  constexpr int kOutputs = Tiles::kVectors * kNativeLanes;
  const int tiles = (rows + Tiles::kMaxRows - 1) / Tiles::kMaxRows * (kBf16Panel / kOutputs);
  int lines = 0, tile = 0;  // that were prefetched, of kFourPairLines; tiles that were computed
  for (int n = 0; n < kBf16Panel; n += kOutputs) {
    in_equal_tiles<Tiles::kMaxRows>(rows, [&]<int kRows>(int m) {
      const int more = kFourPairLines * ++tile / tiles - lines;
      pair_tile<Tiles, kRows>(x + m * kChunk, pairs + 2 * n, steps, first, {prefetched, more},
                              total + m * kBf16Panel + n);
      lines += more;
      prefetched += more * (steps * kSumStep / 2 / kFourPairs) * 64;
    });
  }
}

// Multiplies a block with the panel of output n. Adds to y, except that the block with the first
// columns sets it. `after` is what will be read next.
template <class Tiles>
void multiply_panel(const MatmulArgs& args, const Block& block, int n, const bf16* panel,
                    const bf16* after) {
  alignas(64) float total[kRowBlock * kBf16Panel];
  load_totals<kBf16Panel>(args, block, n, total);
  for (int k = block.first_column; k < block.last_column; k += kChunk) {
    const int left = args.k - k < kChunk ? args.k - k : kChunk;
    const bf16* const pairs = panel + int64_t(k) * kBf16Panel;
    const bf16* const next = k + kChunk < block.last_column ? pairs + kChunk * kBf16Panel : after;
    multiply_chunk<Tiles>(
        (const float*)args.packed + int64_t(k) * args.num_rows + int64_t(block.first_row) * kChunk,
        block.rows, pairs, (left + kSumStep - 1) / kSumStep, k == 0, (const char*)next, total);
  }
  store_totals<kBf16Panel>(args, block, n, total);
}

template <class Tiles>
void matmul_pairs(const MatmulArgs& args) {
  for_blocks<kBf16Panel>(args, [&](const Block& block, int n) {
    const bf16* const panel = (const bf16*)args.weights + n / kBf16Panel * args.weight_stride;
    const bool is_last = n + kBf16Panel >= args.last && args.after != nullptr;
    const bf16* const next = is_last ? (const bf16*)args.after : panel + args.weight_stride;
    multiply_panel<Tiles>(args, block, n, panel, next + int64_t(block.first_column) * kBf16Panel);
  });
}

// Weights in panels, for multiply_block().
struct WeightPanels {
  static const bf16* pairs(const MatmulArgs& args, int output, int k) {
    return (const bf16*)args.weights + output / kBf16Panel * args.weight_stride +
           int64_t(k) * kBf16Panel + output % kBf16Panel * 2;
  }
  static void fill(Panel& panel, const MatmulArgs& args, int output, int k, int steps) {
    const bf16* from = pairs(args, output, k);
    float* to = panel.data;
    for (int pair = 0; pair < steps * kSumStep / 2; ++pair) {
      for (int v = 0; v < kPanelVectors; ++v) {
        const i32x16 both = load((const int32_t*)(from + v * 32));
        store(to + v * 16, bits_as<f32x16>(shift_left<16>(both)));
        store(to + kPanelOutputs + v * 16, bits_as<f32x16>(both & broadcast(int32_t(0xffff0000))));
      }
      from += 2 * kBf16Panel;
      to += 2 * kPanelOutputs;
    }
  }
  static RowPrefetcher prefetch(const MatmulArgs& args, int output, int first, int last) {
    const int64_t run = int64_t(last - first) * kBf16Panel * int64_t(sizeof(bf16));
    return {(const char*)pairs(args, output / kBf16Panel * kBf16Panel, first), run, run};
  }
};

template <class Tiles>
void matmul_bf16_panels(const MatmulArgs& args) {
  const int rows = args.last_row - args.first_row;
  if (std::is_same_v<Tiles, TallTiles> && rows <= kFewRows) return matmul_pairs<FewRowTiles>(args);
  rows <= kMaxPairRows ? matmul_pairs<Tiles>(args) : matmul_panels<WeightPanels>(args);
}

void interleave_bf16(const bf16* rows, int64_t stride, bf16* panel) {
  (uintptr_t) panel % 64 == 0 ? interleave_rows<true>(rows, stride, panel)
                              : interleave_rows(rows, stride, panel);
}

}  // namespace
}  // namespace pagedinfer
