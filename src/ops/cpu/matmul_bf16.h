// Products with bfloat16 weights, with the additions in the order of AMX: for each step of 32
// columns, one fma chain from +0 over the even columns and one over the odd columns; their sum is
// added to the total. Columns beyond the last are +0 in both factors.
//
// With few rows of x, each transposed vector of weights is used at once for all rows; this is bound
// by reading memory. With many rows, the vectors are kept in a panel in the first-level cache; this
// is bound by fma.
#pragma once

#include "ops/cpu/matmul_weights.h"
#include "ops/cpu/row_tiles.h"
#include "ops/cpu/rows.h"

namespace pagedinfer {
namespace {

constexpr int kDirectTileRows = kNativeLanes == 16 ? 8 : kNativeLanes == 8 ? 2 : 1;  // at a time
constexpr int kMaxDirectRows = kNativeLanes == 16 ? 24 : kNativeLanes == 8 ? 2 : 0;
constexpr int kPanelTileRows = kNativeLanes == 16 ? 6 : kNativeLanes == 8 ? 3 : 2;  // at a time
constexpr int kPanelVectors = kNativeLanes == 16 ? 2 : 1;
constexpr int kPanelOutputs = 16 * kPanelVectors;
constexpr int kRowBlock = 64;  // rows of x that use the same panel

// Rounds x to bfloat16 and stores it as float32, (chunks, num_rows, kChunk). In this order rows are
// not a power of two apart, which would put them into one set of the cache.
void pack_rounded(const PackArgs& args) {
  for (int m = args.first_row; m < args.last_row; ++m) {
    const float* x = args.x + (m - args.first_row) * args.stride;
    for (int k = args.first_column; k < args.last_column; k += kChunk, x += kChunk) {
      const int left = args.k - k < kChunk ? args.k - k : kChunk;
      bf16 rounded[kChunk] = {};
      to_bf16_row(x, rounded, left);
      float* to = (float*)args.packed + int64_t(k) * args.num_rows + int64_t(m) * kChunk;
      for (int i = 0; i < kChunk; i += 16) store(to + i, load_as_float(rounded + i));
    }
  }
}

// total += even + odd. The first step adds to +0 instead, so a total of -0 becomes +0 as with AMX,
// and `total` need not be initialized.
FORCE_INLINE void add_step(bool first, float* total, const f32x16& even, const f32x16& odd) {
  const f32x16 before = first ? broadcast(0.0f) : load(total);
  store(total, before + (even + odd));
}

// The cache lines that each of the tiles of `rows` rows prefetches in a step, of `lines` that they
// prefetch together. Evenly: a processor has few reads in flight at once, and what it cannot begin
// holds up the multiplications.
constexpr int shared_lines(int lines, int rows, int tile_rows) {
  const int tiles = (rows + tile_rows - 1) / tile_rows;
  return (lines + tiles - 1) / tiles;
}

// ---- few rows

// total: (kRows, 16); x: rows of kChunk.
template <int kRows>
__attribute__((noinline)) void direct_tile(const float* x, const bf16* weights, int steps,
                                           bool first, RowPrefetcher& prefetcher,
                                           int lines_per_step, float* total) {
  for (int step = 0; step < steps; ++step, x += kSumStep, weights += kSumStep, first = false) {
    prefetcher.fetch(lines_per_step);
    f32x16 even[kRows], odd[kRows];
    for (int m = 0; m < kRows; ++m) even[m] = odd[m] = broadcast(0.0f);
    for_pairs(weights, [&](int pair, const f32x16& w0, const f32x16& w1) {
      for (int m = 0; m < kRows; ++m) {
        even[m] = fma(broadcast(x[m * kChunk + 2 * pair]), w0, even[m]);
        odd[m] = fma(broadcast(x[m * kChunk + 2 * pair + 1]), w1, odd[m]);
      }
    });
    for (int m = 0; m < kRows; ++m) add_step(first, total + m * 16, even[m], odd[m]);
  }
}

void matmul_direct(const MatmulArgs& args) {
  const int rows = args.last_row - args.first_row;
  const int lines = shared_lines(16, rows, kDirectTileRows);
  alignas(64) float total[(kMaxDirectRows + 1) * 16];
  ChunkCopy copy;
  for (int n = args.first; n < args.last; n += 16) {
    RowPrefetcher prefetcher = prefetch_weights(args, n + 16, 0, args.k);
    for (int k = 0; k < args.k; k += kChunk) {
      copy_weights(args, n, k, copy);
      const int left = args.k - k < kChunk ? args.k - k : kChunk,
                steps = (left + kSumStep - 1) / kSumStep;
      const float* x =
          (const float*)args.packed + int64_t(k) * args.num_rows + int64_t(args.first_row) * kChunk;
      in_equal_tiles<kDirectTileRows>(rows, [&]<int kRows>(int m) {
        direct_tile<kRows>(x + m * kChunk, copy.rows, steps, k == 0, prefetcher, lines,
                           total + m * 16);
      });
    }
    const int outputs = args.last - n < 16 ? args.last - n : 16;
    for (int m = 0; m < rows; ++m) {
      store_part(args.y + (args.first_row + m) * args.y_stride + n, outputs, load(total + m * 16));
    }
  }
}

// ---- many rows

// a * b + c with one rounding. A product of bfloat16 numbers is exact in float32 unless it leaves
// the range; with kExactProducts, a processor without fma multiplies and adds instead.
template <bool kExactProducts>
FORCE_INLINE Native multiply_add(Native a, Native b, Native c) {
  if constexpr (kExactProducts && !kHardwareFma) return a * b + c;
  return fma_native(a, b, c);
}

struct Magnitudes {
  float smallest = __builtin_inff(), largest = 0;  // absolute values, without zeros
};
Magnitudes magnitudes(const float* x, int64_t n) {
  f32x16 smallest = broadcast(__builtin_inff()), largest = broadcast(0.0f), zero = broadcast(0.0f);
  for (int64_t i = 0; i < n; i += 16) {
    const f32x16 size = bits_as<f32x16>(bits_as<i32x16>(load(x + i)) & broadcast(INT32_MAX));
    smallest = select((size > zero) & (size < smallest), size, smallest);
    largest = select(size < largest, largest, size);
  }
  return {-max_lane(zero - smallest), max_lane(largest)};
}
bool products_are_exact(Magnitudes a, Magnitudes b) {
  return a.smallest * b.smallest >= 0x1p-126f && a.largest * b.largest < 0x1p+127f;
}

// A chunk of the weights of kPanelOutputs outputs as float32, (kChunk, kPanelOutputs).
struct Panel {
  alignas(64) float data[kChunk * kPanelOutputs];
};

// Weights in place, for multiply_block().
struct WeightRows {
  // Fills `panel` with `steps` steps of the columns from k on, of the outputs from `output` on.
  static void fill(Panel& panel, const MatmulArgs& args, int output, int k, int steps) {
    ChunkCopy copy;
    for (int v = 0; v < kPanelVectors; ++v) {
      if (output + v * 16 >= args.last) return;  // the totals of the missing outputs are not used
      copy_weights(args, output + v * 16, k, copy);
      for (int step = 0; step < steps; ++step) {
        float* to = panel.data + step * kSumStep * kPanelOutputs + v * 16;
        for_pairs(copy.rows + step * kSumStep,
                  [&](int pair, const f32x16& even, const f32x16& odd) {
                    store(to + 2 * pair * kPanelOutputs, even);
                    store(to + (2 * pair + 1) * kPanelOutputs, odd);
                  });
      }
    }
  }
  // Prefetches columns [first, last) of the outputs from `output` on.
  static RowPrefetcher prefetch(const MatmulArgs& args, int output, int first, int last) {
    return prefetch_weights(args, output, first, last);
  }
};

// Adds `steps` steps of kSumStep columns to the totals of kRows rows of x; if `first`, the totals
// start at +0. Row m of x begins at x + m * kChunk, `panel` is that of fill(), and `total` is
// (kRows, kPanelOutputs). Prefetches `lines_per_step` cache lines of weights in each step.
template <bool kExactProducts, int kRows>
void panel_tile(const float* x, const float* panel, int steps, bool first,
                RowPrefetcher& prefetcher, int lines_per_step, float* total) {
  constexpr int kVectors = kPanelOutputs / kNativeLanes;
  for (int step = 0; step < steps; ++step, first = false) {
    prefetcher.fetch(lines_per_step);
    Native sum[2][kRows][kVectors];  // of the even and odd columns
    for (int m = 0; m < kRows; ++m) {
      for (int v = 0; v < kVectors; ++v) sum[0][m][v] = sum[1][m][v] = Native{};
    }
#pragma GCC unroll 2
    for (int pair = 0; pair < kSumStep / 2; ++pair) {
#pragma GCC unroll 2
      for (int odd = 0; odd < 2; ++odd, ++x, panel += kPanelOutputs) {
        Native w[kVectors];
        for (int v = 0; v < kVectors; ++v) w[v] = load_native(panel + v * kNativeLanes);
        for (int m = 0; m < kRows; ++m) {
          const Native factor = x[m * kChunk] - Native{};
          for (int v = 0; v < kVectors; ++v) {
            sum[odd][m][v] = multiply_add<kExactProducts>(factor, w[v], sum[odd][m][v]);
          }
        }
      }
    }
    for (int m = 0; m < kRows; ++m) {
      for (int v = 0; v < kVectors; ++v) {
        float* to = total + m * kPanelOutputs + v * kNativeLanes;
        const Native before = first ? Native{} : load_native(to);
        store_native(to, before + (sum[0][m][v] + sum[1][m][v]));
      }
    }
  }
}

// Rows and columns of x that are multiplied with all outputs before the next block.
struct Block {
  int first_row, rows, first_column, last_column;
};

// Calls f(block, n) for each block, so small that its x stays in the second-level cache, with each
// n-th output of kOutputs.
template <int kOutputs, class F>
void for_blocks(const MatmulArgs& args, const F& f) {
  for (int row = args.first_row; row < args.last_row; row += kRowBlock) {
    const int rows = args.last_row - row < kRowBlock ? args.last_row - row : kRowBlock;
    const int columns = kBlockNumbers / rows / kChunk * kChunk;
    for (int k = 0; k < args.k; k += columns) {
      const int last = args.k - k < columns ? args.k : k + columns;
      for (int n = args.first; n < args.last; n += kOutputs) f(Block{row, rows, k, last}, n);
    }
  }
}

// Calls f(16 totals, their place in y, how many y has from there on) for the totals of a block,
// (rows, kOutputs), of the outputs from n on.
template <int kOutputs, class F>
FORCE_INLINE void for_totals(const MatmulArgs& args, const Block& block, int n, float* total,
                             const F& f) {
  const int left = args.last - n, outputs = left < kOutputs ? left : kOutputs;
  for (int m = 0; m < block.rows; ++m) {
    for (int i = 0; i < outputs; i += 16) {
      f(total + m * kOutputs + i, args.y + (block.first_row + m) * args.y_stride + n + i,
        outputs - i);
    }
  }
}
// The block with the first columns begins its totals itself, the others with what y has.
template <int kOutputs>
void load_totals(const MatmulArgs& args, const Block& block, int n, float* total) {
  if (block.first_column == 0) return;
  for_totals<kOutputs>(args, block, n, total, [](float* to, const float* y, int count) {
    store(to, load_part(y, count));
  });
}
template <int kOutputs>
void store_totals(const MatmulArgs& args, const Block& block, int n, float* total) {
  for_totals<kOutputs>(args, block, n, total, [](const float* from, float* y, int count) {
    store_part(y, count, load(from));
  });
}

// Multiplies a block with the kPanelOutputs outputs from n. Adds to y, except that the block with
// the first columns sets it.
template <class Weights>
void multiply_block(const MatmulArgs& args, const Block& block, int n, RowPrefetcher prefetcher) {
  Panel panel;
  alignas(64) float total[kRowBlock * kPanelOutputs];
  const int rows = block.rows;
  load_totals<kPanelOutputs>(args, block, n, total);
  for (int k = block.first_column; k < block.last_column; k += kChunk) {
    const int left = args.k - k < kChunk ? args.k - k : kChunk;
    const int steps = (left + kSumStep - 1) / kSumStep;
    Weights::fill(panel, args, n, k, steps);
    const float* x =
        (const float*)args.packed + int64_t(k) * args.num_rows + int64_t(block.first_row) * kChunk;
    const int lines = shared_lines(kPanelOutputs, rows, kPanelTileRows);
    const auto tiles = [&]<bool kExactProducts>() {
      in_equal_tiles<kPanelTileRows>(rows, [&]<int kRows>(int m) {
        panel_tile<kExactProducts, kRows>(x + m * kChunk, panel.data, steps, k == 0, prefetcher,
                                          lines, total + m * kPanelOutputs);
      });
    };
    static_assert(kHardwareFma || kPanelVectors == 1);
    if (!kHardwareFma &&
        products_are_exact(magnitudes(x, int64_t(rows) * kChunk),
                           magnitudes(panel.data, steps * kSumStep * kPanelOutputs))) {
      tiles.template operator()<true>();
    } else {
      tiles.template operator()<false>();
    }
  }
  store_totals<kPanelOutputs>(args, block, n, total);
}

template <class Weights>
void matmul_panels(const MatmulArgs& args) {
  for_blocks<kPanelOutputs>(args, [&](const Block& block, int n) {
    multiply_block<Weights>(
        args, block, n,
        Weights::prefetch(args, n + kPanelOutputs, block.first_column, block.last_column));
  });
}

// ----

void matmul_bf16(const MatmulArgs& args) {
  args.last_row - args.first_row <= kMaxDirectRows ? matmul_direct(args)
                                                   : matmul_panels<WeightRows>(args);
}

}  // namespace
}  // namespace pagedinfer
