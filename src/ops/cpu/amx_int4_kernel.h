// Products with codes on AMX tiles (amx_int8_kernel.h), for groups of at least 64 columns, which
// fill a tile, and super-blocks. The codes of 256 columns become numbers with a sign in the
// first-level cache, less their zero points, and are multiplied with up to 128 rows there.
//
// The template argument Tiles is the processor's tiles (amx_matmul.cpp) or, in tests, plain loops.
#pragma once

#include "ops/cpu/amx_int4_groups.h"
#include "ops/cpu/amx_super_blocks.h"

namespace pagedinfer {
namespace {

// Weights: TileGroups or TileSuperBlocks.
template <class Tiles, class Weights>
class TileInt4Product {
 public:
  explicit TileInt4Product(const MatmulArgs& args)
      : args_(args),
        header_(*(const Int4Header*)args.weights),
        input_(args.packed, args.num_rows, args.k),
        streams_(args.streams_y &&
                 ((uintptr_t)(args.y + args.first) | args.y_stride * sizeof(float)) % 64 == 0) {
    for (Int4Block& block : blocks_) block.set_zeros(zero_of(header_));
  }

  void run() {
    // As many rows as the second-level cache holds read the codes, which are small, once.
    const int rows = args_.last_row - args_.first_row;
    const int64_t held = int64_t{kHeldBytes} / args_.k / kInt8Block * kInt8Block;
    const int max_part = held < kTotalRows / 2  ? kTotalRows / 2
                         : held > kInt8RowBlock ? kInt8RowBlock
                                                : (int)held;
    const int parts = (rows + max_part - 1) / max_part;
    const int part = ((rows + parts - 1) / parts + kInt8Block - 1) / kInt8Block * kInt8Block;
    for (int row = args_.first_row; row < args_.last_row; row += part) {
      const int end = args_.last_row - row < part ? args_.last_row : row + part;
      for (int n = args_.first; n < args_.last; n += kInt8Panel) multiply_panel(row, end, n);
    }
    _mm_sfence();
  }

 private:
  // Rows and outputs of one panel, either both halves of the outputs or the second or first.
  struct Piece {
    int row, rows;
    int panel, first_half, end_half;
  };

  // So many rows take half a panel that their totals stay in the first-level cache; few rows take
  // all of it.
  void multiply_panel(int row, int end, int n) {
    if (end - row <= kTotalRows / 2) return multiply({row, end - row, n, 0, 2});
    for (int half = 0; half < 2 && n + half * kInt8Block < args_.last; ++half) {
      for (int first = row; first < end; first += kTotalRows) {
        multiply({first, end - first < kTotalRows ? end - first : kTotalRows, n, half, half + 1});
      }
    }
  }

  // Sums are added to their totals while the second ones after them are multiplied, so a block
  // stays as it is until then.
  void multiply(const Piece& p) {
    const CodePanel panel = code_panel(args_, p.panel);
    const int columns = (int)int4_columns(args_.k, header_.group);
    for (int k = 0; k < args_.k; k += kInt8Group) {
      Int4Block& block = blocks_[k / kInt8Group % 3];
      block.move_to(header_, panel, k, columns);
      block.widen();
      weights_.unpack(block, p.first_half * kInt8Block, p.end_half * kInt8Block);
      for (int half = p.first_half; half < p.end_half; ++half) {
        for (int m = 0; m < p.rows; m += kInt8Block) multiply_block(p, block, k, half, m);
      }
    }
    pipeline_.drain();
    for (int half = p.first_half; half < p.end_half; ++half) store_totals(p, half);
  }

  FORCE_INLINE void multiply_block(const Piece& p, const Int4Block& block, int k, int half, int m) {
    const int row = p.row + m;
    const int64_t at = input_.at(k / kInt8Group, row);
    // Without a second tile of rows the first one is multiplied twice.
    weights_.multiply(block, half,
                      {.numbers = input_.numbers + at * kInt8Group,
                       .second = row + 16 < args_.last_row ? 16 * kInt8Group : 0,
                       .sums = input_.sums + at * kNumSums,
                       .scales = input_.scales + at,
                       .totals = totals(p, half) + m * kInt8Block},
                      pipeline_);
  }

  float* totals(const Piece& p, int half) {
    return totals_ + (half - p.first_half) * (kTotalRows / 2) * kInt8Block;
  }
  void store_totals(const Piece& p, int half) {
    const int output = p.panel + half * kInt8Block;
    for (int m = 0; m < p.rows; ++m) {
      for (int i = 0; i < kInt8Block && output + i < args_.last; i += 16) {
        float* const y = args_.y + (p.row + m) * args_.y_stride + output + i;
        const f32x16 total = load(totals(p, half) + m * kInt8Block + i);
        if (streams_ && output + i + 16 <= args_.last) {
          store_past_caches(y, total);
        } else {
          store_part(y, args_.last - output - i, total);
        }
      }
    }
  }

  const MatmulArgs& args_;
  const Int4Header& header_;
  const Int4Input input_;
  const bool streams_;  // whole lines of y go past the caches, so that they are not read first
  Int4Block blocks_[3];
  Weights weights_;
  alignas(64) float totals_[kTotalRows * kInt8Block];
  Int8Pipeline<Tiles, typename Weights::Target> pipeline_;
};

// Whether tiles can multiply these codes.
inline bool can_use_tiles(const Int4Header& header) {
  if (header.sub_group > 0) return TileSuperBlocks::can_unpack(header.values);
  return header.group >= kInt8Step &&
         (header.values == CodeValues::kUniform || header.values == CodeValues::kFp4);
}

// REQUIRES: can_use_tiles().
template <class Tiles>
void matmul_int4_tiles(const MatmulArgs& args) {
  const Tiles configured;
  if (((const Int4Header*)args.weights)->sub_group > 0) {
    TileInt4Product<Tiles, TileSuperBlocks>(args).run();
  } else {
    TileInt4Product<Tiles, TileGroups>(args).run();
  }
}

}  // namespace
}  // namespace pagedinfer
