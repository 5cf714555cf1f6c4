// Products with bfloat16 weights on AMX tiles of 16 rows of 64 bytes. The left operand is the
// weights, read in place: a row of a tile is 32 columns of one output. The right operand is x,
// packed once for all threads and weights. A tile of sums is (outputs, rows) and is transposed when
// it is stored.
//
// With few rows of x this is bound by reading the weights, with many by the multiplications; then
// the weights of 32 outputs stay in the second-level cache.
//
// The template argument Tiles is the processor's tiles (amx_matmul.cpp) or, in tests, plain loops.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/vector.h"

namespace pagedinfer {
namespace {

constexpr int kTileRows = 16, kTileColumns = 32;  // of bfloat16
constexpr int kTileNumbers = kTileRows * kTileColumns;
constexpr int kCopiedColumns = 512;  // copied at a time if weights cannot be read in place

// Steps of kTileColumns columns that cover k columns.
inline int whole_steps(int k) { return (k + kTileColumns - 1) / kTileColumns; }

// Rounds x to bfloat16 and stores it as (blocks of 16 rows, steps of 32 columns, pairs of columns,
// 16 rows, 2): each step of a block is a tile. Rows and columns beyond the last are +0.
inline void pack_tiles(const PackArgs& args, void (*to_bf16)(const float*, bf16*, int64_t)) {
  const int steps = whole_steps(args.k);
  for (int block = args.first_row; block < args.last_row; block += kTileRows) {
    const int rows = args.last_row - block < kTileRows ? args.last_row - block : kTileRows;
    bf16* tile = (bf16*)args.packed + int64_t(block) * steps * kTileColumns;
    for (int k = 0; k < args.k; k += kTileColumns, tile += kTileNumbers) {
      const int columns = args.k - k < kTileColumns ? args.k - k : kTileColumns;
      uint32_t pairs[kTileRows][kTileColumns / 2] = {};
      for (int m = 0; m < rows; ++m) {
        to_bf16(args.x + (block + m) * args.stride + k, (bf16*)pairs[m], columns);
      }
      for (int pair = 0; pair < kTileColumns / 2; ++pair) {
        for (int m = 0; m < kTileRows; ++m) {
          memcpy(tile + pair * kTileColumns + 2 * m, &pairs[m][pair], sizeof(uint32_t));
        }
      }
    }
  }
}

// Stores the transpose of sums (16 outputs, 16 rows) in y, the first `rows` rows and `outputs`
// outputs of it.
inline void store_transposed(const float* sums, int outputs, int rows, float* y, int64_t y_stride) {
  const float* from[16];
  for (int i = 0; i < 16; ++i) from[i] = sums + i * 16;
  f32x16 row[16];
  load_transposed(from, row);
  for (int m = 0; m < rows && m < 16; ++m, y += y_stride) {
    if (outputs >= 16) {
      store(y, row[m]);
    } else {
      float whole[16];
      store(whole, row[m]);
      memcpy(y, whole, outputs * sizeof(float));
    }
  }
}

// The weights of 32 outputs, in place or in a TileCopy: row i begins at rows + i * stride.
struct TileWeights {
  const bf16* rows;
  int64_t stride;  // elements
};
struct TileCopy {
  alignas(64) bf16 rows[2 * kTileRows * kCopiedColumns];
};
// The weights in place, or, if that would read beyond the last output or column, a copy padded with
// +0.
inline TileWeights tile_weights(const MatmulArgs& args, int output, int first, int last,
                                TileCopy& copy) {
  constexpr int kOutputs = 2 * kTileRows;
  const int outputs = args.last - output < kOutputs ? args.last - output : kOutputs;
  const bf16* from = (const bf16*)args.weights + output * args.weight_stride + first;
  if (outputs == kOutputs && (last - first) % kTileColumns == 0) return {from, args.weight_stride};
  memset(copy.rows, 0, sizeof copy.rows);
  for (int i = 0; i < outputs; ++i, from += args.weight_stride) {
    memcpy(copy.rows + i * kCopiedColumns, from, (last - first) * sizeof(bf16));
  }
  return {copy.rows, kCopiedColumns};
}

// Multiplies the 16 * kBlocks rows from `row` with the 32 outputs from `output`. Tiles 0 to 3 hold
// the sums, 4 and 5 the weights, 6 and 7 x.
template <class Tiles, int kBlocks>
void multiply_tiles(const MatmulArgs& args, int output, int row, TileCopy& copy) {
  Tiles::template zero<0>();
  Tiles::template zero<1>();
  if constexpr (kBlocks == 2) {
    Tiles::template zero<2>();
    Tiles::template zero<3>();
  }
  const int64_t block_numbers = int64_t(whole_steps(args.k)) * kTileNumbers;
  const bf16* x = (const bf16*)args.packed + row / kTileRows * block_numbers;
  for (int k = 0; k < args.k; k += kCopiedColumns) {
    const int last = args.k - k < kCopiedColumns ? args.k : k + kCopiedColumns;
    const TileWeights weights = tile_weights(args, output, k, last, copy);
    const int64_t bytes = weights.stride * sizeof(bf16);
    for (int step = 0; step < whole_steps(last - k); ++step, x += kTileNumbers) {
      const bf16* w = weights.rows + step * kTileColumns;
      Tiles::template load<4>(w, bytes);
      Tiles::template load<6>(x, 64);
      Tiles::template multiply<0, 4, 6>();
      Tiles::template load<5>(w + kTileRows * weights.stride, bytes);
      Tiles::template multiply<1, 5, 6>();
      if constexpr (kBlocks == 2) {
        Tiles::template load<7>(x + block_numbers, 64);
        Tiles::template multiply<2, 4, 7>();
        Tiles::template multiply<3, 5, 7>();
      }
    }
  }
  alignas(64) float sums[4][16 * 16];
  Tiles::template store<0>(sums[0], 64);
  Tiles::template store<1>(sums[1], 64);
  if constexpr (kBlocks == 2) {
    Tiles::template store<2>(sums[2], 64);
    Tiles::template store<3>(sums[3], 64);
  }
  for (int block = 0; block < kBlocks; ++block) {
    const int first = row + block * kTileRows;
    float* y = args.y + first * args.y_stride + output;
    for (int half = 0; half < 2 && output + half * 16 < args.last; ++half) {
      store_transposed(sums[2 * block + half], args.last - output - half * 16,
                       args.last_row - first, y + half * 16, args.y_stride);
    }
  }
}

template <class Tiles>
void matmul_tiles(const MatmulArgs& args) {
  const Tiles configured;
  TileCopy copy;
  for (int output = args.first; output < args.last; output += 2 * kTileRows) {
    int row = args.first_row;
    for (; row + kTileRows < args.last_row; row += 2 * kTileRows) {
      multiply_tiles<Tiles, 2>(args, output, row, copy);
    }
    if (row < args.last_row) multiply_tiles<Tiles, 1>(args, output, row, copy);
  }
}

}  // namespace
}  // namespace pagedinfer
