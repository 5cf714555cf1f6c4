// Products with bfloat16 weights on AMX tiles of 16 rows of 64 bytes. The left operand is x: 32
// columns of 16 rows, packed once for all threads and weights. The right operand is weights in
// panels (bf16_layout.h): a row of a tile is two columns of 16 outputs. So a tile of sums is (rows,
// outputs). Weights in place become panels a block at a time.
//
// Up to 16 rows this is bound by reading the weights. With more, a block of 512 columns of a panel,
// 32 KiB, stays in the first-level cache, and x passes by from the second-level cache, which holds
// 2048 columns of 256 rows, 1 MiB. Sums are stored between the first multiplications of the next
// block: at the end of their own block the stores would wait for the tiles, and block what follows.
//
// The template argument Tiles is the processor's tiles (amx_matmul.cpp) or, in tests, plain loops.
#pragma once

#include "ops/cpu/bf16_layout.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/matmul_weights.h"
#include "ops/cpu/vector.h"

namespace pagedinfer {
namespace {

constexpr int kTileHeight = 16;                        // rows
constexpr int kTileNumbers = kTileHeight * kBf16Step;  // of x, or of half a step of a panel
constexpr int kBlockHeight = 2 * kTileHeight;          // rows of a block, with a panel's outputs
constexpr int kBlockSums = kBlockHeight * kBf16Panel;  // lie as (rows, outputs)
constexpr int kTileColumns = 512;                      // of a block of weights
constexpr int kHeldColumns = 2048, kHeldRows = 256;    // of x
constexpr int kSharingOutputs = 2048;                  // use them before the next are read
static_assert((kHeldRows * kSharingOutputs + kBlockSums) * sizeof(float) == kMultiplyScratch);

// x in bfloat16, as (blocks of kTileColumns, blocks of 16 rows, steps, 16 rows, 32 columns), so
// that tiles lie in the order of reading. Columns beyond the last are +0, and rows are anything.
struct TiledInput {
  TiledInput(const void* packed, int num_rows, int columns)
      : numbers((bf16*)packed),
        rows((num_rows + kTileHeight - 1) / kTileHeight * kTileHeight),
        k(columns) {}

  // Steps of the block of columns that begins at `first`.
  int steps(int first) const {
    const int columns = k - first < kTileColumns ? k - first : kTileColumns;
    return (columns + kBf16Step - 1) / kBf16Step;
  }
  // The tile of 16 rows and of the step at column `at`.
  bf16* tile(int row, int at) const {
    const int first = at / kTileColumns * kTileColumns;
    const int64_t step = int64_t(row / kTileHeight) * steps(first) + (at - first) / kBf16Step;
    return numbers + first * rows + step * kTileNumbers;
  }

  bf16* numbers;
  int64_t rows;
  int k;
};

inline void pack_tiles(const PackArgs& args, void (*to_bf16)(const float*, bf16*, int64_t)) {
  const TiledInput to(args.packed, args.num_rows, args.k);
  for (int row = args.first_row; row < args.last_row; row += kTileHeight) {
    const int rows = args.last_row - row < kTileHeight ? args.last_row - row : kTileHeight;
    const float* x = args.x + (row - args.first_row) * args.stride;
    for (int k = args.first_column; k < args.last_column; k += kBf16Step, x += kBf16Step) {
      bf16* const tile = to.tile(row, k);
      const int columns = args.k - k < kBf16Step ? args.k - k : kBf16Step;
      if (columns < kBf16Step) memset((void*)tile, 0, kTileNumbers * sizeof(bf16));
      for (int m = 0; m < rows; ++m) {
        to_bf16(x + m * args.stride, tile + m * kBf16Step, columns);
      }
    }
  }
}

// A block of a panel that was interleaved from weights in place.
struct TileCopy {
  alignas(64) bf16 panel[kTileColumns * kBf16Panel];
};

// Where the weights of a block are, and what is prefetched during it: as much as the block.
struct PanelWeights {
  static constexpr bool kPacked = true;
  static const bf16* at(const MatmulArgs& args, int output, int k) {
    return (const bf16*)args.weights + output / kBf16Panel * args.weight_stride +
           int64_t(k) * kBf16Panel;
  }
  static const bf16* block(const MatmulArgs& args, int output, int k, TileCopy&) {
    return at(args, output, k);
  }
  static RowPrefetcher prefetch(const MatmulArgs& args, int output, int k) {
    constexpr int64_t kDistance = 65536, kBytes = kTileColumns * kBf16Panel * sizeof(bf16);
    return {(const char*)at(args, output, k) + kDistance, kBytes, kBytes};
  }
};

struct InPlaceWeights {
  static constexpr bool kPacked = false;
  // Pads with +0 beyond the last column, and with anything beyond the last output.
  static const bf16* block(const MatmulArgs& args, int output, int k, TileCopy& copy) {
    const int last = args.k - k < kTileColumns ? args.k : k + kTileColumns;
    for (int n = output; n < args.last && n < output + kBf16Panel; n += kTileHeight) {
      const bf16* from = (const bf16*)args.weights + n * args.weight_stride;
      const int outputs = args.last - n < kTileHeight ? args.last - n : kTileHeight;
      bf16* to = copy.panel + (n - output) * 2;
      for (int column = k; column < last; column += kBf16Step, to += kBf16Step * kBf16Panel) {
        if (outputs == kTileHeight && last - column >= kBf16Step) {
          interleave_rows(from + column, args.weight_stride, to);
          continue;
        }
        bf16 rows[kTileNumbers] = {};
        const int columns = last - column < kBf16Step ? last - column : kBf16Step;
        for (int i = 0; i < outputs; ++i) {
          memcpy(rows + i * kBf16Step, from + i * args.weight_stride + column,
                 columns * sizeof(bf16));
        }
        interleave_rows(rows, kBf16Step, to);
      }
    }
    return copy.panel;
  }
  static RowPrefetcher prefetch(const MatmulArgs& args, int output, int k) {
    const bool ends = k + kTileColumns >= args.k;
    const int next = ends ? 0 : k + kTileColumns;
    return prefetch_weights(args, output + (ends ? kBf16Panel : 0), next, next + kTileColumns);
  }
};

// Computes blocks of 32 rows and 32 outputs one after another. Tiles 0 to 3 are the sums of a
// block: two by two tiles, row by row. Tiles 4 and 5 are weights, 6 and 7 x.
template <class Tiles, class Weights>
class TileProduct {
 public:
  explicit TileProduct(const MatmulArgs& args)
      : args_(args),
        x_(args.packed, args.num_rows, args.k),
        block_{.sums = (float*)args.scratch},
        sums_(block_.sums + kBlockSums),
        streams_(args.streams_y &&
                 ((uintptr_t)(args.y + args.first) | args.y_stride * sizeof(float)) % 64 == 0) {}

  void run() {
    if constexpr (Weights::kPacked) {
      if (args_.last_row - args_.first_row <= kTileHeight) return run_few();
    }
    const int rows = args_.last_row - args_.first_row, parts = (rows + kHeldRows - 1) / kHeldRows;
    const int part = ((rows + parts - 1) / parts + kBlockHeight - 1) / kBlockHeight * kBlockHeight;
    for (int row = args_.first_row; row < args_.last_row; row += part) {
      const int end = args_.last_row - row < part ? args_.last_row : row + part;
      for (int n = args_.first; n < args_.last; n += kSharingOutputs) {
        const int last = args_.last - n < kSharingOutputs ? args_.last : n + kSharingOutputs;
        multiply_part(row, end, n, last);
      }
    }
    begin_storing();
    Tiles::template store<0>(block_.sums, kRowBytes);
    Tiles::template store<1>(block_.sums + 16, kRowBytes);
    Tiles::template store<2>(block_.sums + kBlockSums / 2, kRowBytes);
    Tiles::template store<3>(block_.sums + kBlockSums / 2 + 16, kRowBytes);
    stored_ = block_;
    finish_rows(kBlockHeight);
    _mm_sfence();
  }

 private:
  static constexpr int kRowBytes = kBf16Panel * sizeof(float);  // of sums
  static constexpr int kPanelBytes = kBf16Panel * 4;            // of two columns of a panel
  static constexpr int kRowsBeside = 3;                         // that are finished during a step

  struct Block {
    float* sums;
    int row = 0, rows = 0, output = 0;  // rows: that are to be finished
  };

  // All columns of rows [first_row, end) and outputs [n, last). Sums wait in memory for the next
  // kHeldColumns.
  void multiply_part(int first_row, int end, int n, int last) {
    TileCopy copy;
    const int64_t size = (end - first_row + kBlockHeight - 1) / kBlockHeight * kBlockSums;
    for (int held = 0; held < args_.k; held += kHeldColumns) {
      const int held_end = args_.k - held < kHeldColumns ? args_.k : held + kHeldColumns;
      float* sums = sums_;
      for (int output = n; output < last; output += kBf16Panel) {
        for (int k = held; k < held_end; k += kTileColumns) {
          const bf16* const weights = Weights::block(args_, output, k, copy);
          RowPrefetcher prefetcher = Weights::prefetch(args_, output, k);
          const int lines = int((16 * kBlockSums + size - 1) / size);  // twice in a step: 32
          for (int row = first_row, i = 0; row < end; row += kBlockHeight, ++i) {
            add_block(row, output, k, weights, prefetcher, lines, sums + i * kBlockSums);
          }
        }
        if (args_.k > kHeldColumns) sums += size;
      }
    }
  }

  // Adds a block of columns to a block of sums.
  FORCE_INLINE void add_block(int row, int output, int k, const bf16* weights,
                              RowPrefetcher& prefetcher, int lines, float* sums) {
    const bf16* x = x_.tile(row, k);
    int steps = x_.steps(k);
    // Without a second tile of rows the first one is multiplied twice.
    const int64_t second = row + kTileHeight < args_.last_row ? steps * kTileNumbers : 0;
    if (k == 0 || block_.sums != sums) {  // else its sums are still in the tiles
      begin_storing();
      k == 0 ? first_step<true>(x, second, weights, sums)
             : first_step<false>(x, second, weights, sums);
      fetch_twice(prefetcher, lines);
      stored_ = block_;
      x += kTileNumbers;
      weights += kBf16Step * kBf16Panel;
      --steps;
    }
    for (; steps > 0; --steps, x += kTileNumbers, weights += kBf16Step * kBf16Panel) {
      Tiles::template load<4>(weights, kPanelBytes);
      Tiles::template load_once<6>(x, 64);
      Tiles::template multiply<0, 6, 4>();
      Tiles::template load<5>(weights + kBf16Panel, kPanelBytes);
      Tiles::template multiply<1, 6, 5>();
      Tiles::template load_once<7>(x + second, 64);
      Tiles::template multiply<2, 7, 4>();
      Tiles::template multiply<3, 7, 5>();
      fetch_twice(prefetcher, lines);
      finish_rows(kRowsBeside);
    }
    const int left = args_.last_row - row;
    block_ = {sums, row,
              k + kTileColumns < args_.k ? 0
              : left < kBlockHeight      ? left
                                         : kBlockHeight,
              output};
  }
  template <bool kZero>
  FORCE_INLINE void first_step(const bf16* x, int64_t second, const bf16* weights,
                               const float* sums) {
    exchange<0, kZero>(sums);
    Tiles::template load<4>(weights, kPanelBytes);
    Tiles::template load_once<6>(x, 64);
    Tiles::template multiply<0, 6, 4>();
    exchange<1, kZero>(sums);
    Tiles::template load<5>(weights + kBf16Panel, kPanelBytes);
    Tiles::template multiply<1, 6, 5>();
    exchange<2, kZero>(sums);
    Tiles::template load_once<7>(x + second, 64);
    Tiles::template multiply<2, 7, 4>();
    exchange<3, kZero>(sums);
    Tiles::template multiply<3, 7, 5>();
  }
  // Stores a tile of the block before and begins one of this block.
  template <int kTile, bool kZero>
  FORCE_INLINE void exchange(const float* sums) {
    constexpr int kAt = kTile / 2 * (kBlockSums / 2) + kTile % 2 * 16;
    Tiles::template store<kTile>(block_.sums + kAt, kRowBytes);
    if constexpr (kZero) {
      Tiles::template zero<kTile>();
    } else {
      Tiles::template load<kTile>(sums + kAt, kRowBytes);
    }
  }

  // A block of weights in place has 16 lines in a row.
  static FORCE_INLINE void fetch_twice(RowPrefetcher& prefetcher, int lines) {
    prefetcher.fetch(lines);
    prefetcher.fetch(lines);
  }

  // Finishes what was stored before, whose memory the block that is stored next may take.
  FORCE_INLINE void begin_storing() { finish_rows(kBlockHeight); }
  // Writes rows of complete sums to y, so many if there are.
  FORCE_INLINE void finish_rows(int count) {
    for (; count > 0 && stored_.rows > 0; --count, --stored_.rows, ++stored_.row) {
      finish_row(stored_.sums, stored_.row, stored_.output);
      stored_.sums += kBf16Panel;
    }
  }
  FORCE_INLINE void finish_row(const float* sums, int row, int output) const {
    float* const y = args_.y + row * args_.y_stride + output;
    const int left = args_.last - output;
    if (streams_ && left >= kBf16Panel) {
      store_past_caches(y, load(sums));
      store_past_caches(y + 16, load(sums + 16));
      return;
    }
    store_part(y, left, load(sums));
    if (left > 16) store_part(y + 16, left - 16, load(sums + 16));
  }

  // Up to 16 rows take two panels at once: a tile of x serves both, and memory gives two streams
  // faster than one.
  void run_few() {
    constexpr int kLines = kBf16Step * kBf16Panel * sizeof(bf16) / 64;  // of a step
    constexpr int kAhead = 2 * kBf16Step * kBf16Panel;                  // numbers
    for (int n = args_.first; n < args_.last; n += 2 * kBf16Panel) {
      const bf16* w = Weights::at(args_, n, 0);
      const int64_t other = n + kBf16Panel < args_.last ? args_.weight_stride : 0;
      Tiles::template zero<0>();
      Tiles::template zero<1>();
      Tiles::template zero<2>();
      Tiles::template zero<3>();
      for (int k = 0; k < args_.k; k += kTileColumns) {
        const bf16* x = x_.tile(args_.first_row, k);
        for (int i = x_.steps(k); i > 0; --i, x += kTileNumbers, w += kBf16Step * kBf16Panel) {
          for (int line = 0; line < kLines; ++line) {
            _mm_prefetch((const char*)(w + kAhead + line * 32), _MM_HINT_T1);
            _mm_prefetch((const char*)(w + other + kAhead + line * 32), _MM_HINT_T1);
          }
          Tiles::template load<6>(x, 64);
          Tiles::template load_once<4>(w, kPanelBytes);
          Tiles::template multiply<0, 6, 4>();
          Tiles::template load_once<5>(w + kBf16Panel, kPanelBytes);
          Tiles::template multiply<1, 6, 5>();
          Tiles::template load_once<4>(w + other, kPanelBytes);
          Tiles::template multiply<2, 6, 4>();
          Tiles::template load_once<5>(w + other + kBf16Panel, kPanelBytes);
          Tiles::template multiply<3, 6, 5>();
        }
      }
      Tiles::template store<0>(sums_, kRowBytes);
      Tiles::template store<1>(sums_ + 16, kRowBytes);
      Tiles::template store<2>(sums_ + kBlockSums / 2, kRowBytes);
      Tiles::template store<3>(sums_ + kBlockSums / 2 + 16, kRowBytes);
      for (int row = args_.first_row; row < args_.last_row; ++row) {
        const float* const sums = sums_ + (row - args_.first_row) * kBf16Panel;
        finish_row(sums, row, n);
        if (other != 0) finish_row(sums + kBlockSums / 2, row, n + kBf16Panel);
      }
    }
    _mm_sfence();
  }

  const MatmulArgs& args_;
  const TiledInput x_;
  Block block_;                       // whose sums are in the tiles
  Block stored_ = {.sums = nullptr};  // the one before, whose sums are in memory
  float* const sums_;
  const bool streams_;  // whole lines of y go past the caches, so that they are not read first
};

template <class Tiles, class Weights>
void matmul_tiles(const MatmulArgs& args) {
  const Tiles configured;
  TileProduct<Tiles, Weights>(args).run();
}

}  // namespace
}  // namespace pagedinfer
