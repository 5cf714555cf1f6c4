// Products with codes of 4 bits on AMX tiles (amx_int8_kernel.h), for groups of at least 64
// columns, which fill a tile. The codes of 256 columns become numbers with a sign in the
// first-level cache, less their zero points, and are multiplied with up to 128 rows there.
//
// The template argument Tiles is the processor's tiles (amx_matmul.cpp) or, in tests, plain loops.
#pragma once

#include "ops/cpu/amx_int8_kernel.h"
#include "ops/cpu/int4_panels.h"

namespace pagedinfer {
namespace {

// Where the sums of a group of weights go: 32 rows and 32 outputs.
struct Int4Target {
  const float *weight_scales, *row_scales;
  float *parts, *totals;   // (32, 32)
  bool is_first, is_last;  // of the groups of a block
  bool begins;             // the totals begin at +0

  template <int count>
  FORCE_INLINE void add(const int32_t* sums, int first) const {
    if (is_last) {
      is_first ? add<count, true, true>(sums, first) : add<count, false, true>(sums, first);
    } else {
      is_first ? add<count, true, false>(sums, first) : add<count, false, false>(sums, first);
    }
  }

 private:
  template <int count, bool kFirst, bool kLast>
  FORCE_INLINE void add(const int32_t* sums, int first) const {
    const f32x16 zero = broadcast(0.0f);
    const f32x16 scales[2] = {load(weight_scales), load(weight_scales + 16)};
#pragma GCC unroll 8
    for (int m = first; m < first + count; ++m) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const int at = m * kInt8Block + half * 16;
        const f32x16 part =
            fma(sums_of_row(sums, m, half), scales[half], kFirst ? zero : load(parts + at));
        if (kLast) {
          store(totals + at,
                fma(part, broadcast(row_scales[m]), begins ? zero : load(totals + at)));
        } else {
          store(parts + at, part);
        }
      }
    }
  }
};

// Bytes with a sign, as a panel in int8 has them: (columns / 4, 64 outputs, 4).
template <CodeValues kValues>
void unpack_signed(const Int4Block& block, int first_output, int end_output, uint8_t* bytes) {
  typedef int8_t Bytes __attribute__((vector_size(sizeof(NativeCodes))));
  for (int g = 0; g < block.groups; ++g) {
    for (int output = first_output; output < end_output; output += kNativeLanes) {
      const auto zeros =
          (Bytes)(load_codes((const uint8_t*)(block.zeros[g] + output)) * 0x01010101);
      const uint8_t* from = block.codes + g * block.group_bytes + output * kFour;
      uint8_t* to = bytes + (g * block.group) * kInt8Panel + output * kFour;
      for (int c = 0; c < block.columns_of(g); c += kInt4Eight) {
        _mm_prefetch((const char*)block.panel.ahead_of(from, block.distance), _MM_HINT_T1);
        const NativeCodes both = load_codes(from);
        const auto low = (Bytes)numbers_of<kValues>(lower_halves(both)) - zeros;
        const auto high = (Bytes)numbers_of<kValues>(upper_halves(both)) - zeros;
        *(i32x16::InMemory*)to = (NativeCodes)low;
        *(i32x16::InMemory*)(to + kFourBytes) = (NativeCodes)high;
        from += kInt4EightBytes;
        to += 2 * kFourBytes;
      }
    }
  }
}

template <class Tiles>
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
      unpack(block, p);
      for (int half = p.first_half; half < p.end_half; ++half) {
        for (int m = 0; m < p.rows; m += kInt8Block) multiply_block(p, block, k, half, m);
      }
    }
    pipeline_.drain();
    for (int half = p.first_half; half < p.end_half; ++half) store_totals(p, half);
  }

  void unpack(const Int4Block& block, const Piece& p) {
    const int first = p.first_half * kInt8Block, end = p.end_half * kInt8Block;
    header_.values == CodeValues::kUniform
        ? unpack_signed<CodeValues::kUniform>(block, first, end, bytes_)
        : unpack_signed<CodeValues::kFp4>(block, first, end, bytes_);
  }

  FORCE_INLINE void multiply_block(const Piece& p, const Int4Block& block, int k, int half, int m) {
    const int row = p.row + m;
    const int64_t at = input_.at(k / kInt8Group, row);
    for (int g = 0; g < block.groups; ++g) {
      // Without a second tile of rows the first one is multiplied twice.
      pipeline_.multiply(
          {.x = input_.numbers + at * kInt8Group + g * block.group,
           .second = row + 16 < args_.last_row ? 16 * kInt8Group : 0,
           .weights = bytes_ + g * block.group * kInt8Panel + half * kInt8Block * kFour,
           .steps = block.columns_of(g) / kInt8Step},
          {.weight_scales = block.scales[g] + half * kInt8Block,
           .row_scales = input_.scales + at,
           .parts = parts_,
           .totals = totals(p, half) + m * kInt8Block,
           .is_first = g == 0,
           .is_last = g + 1 == block.groups,
           .begins = block.is_first},
          no_prefetcher_, 0);
    }
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
  NoPrefetcher no_prefetcher_;
  Int4Block blocks_[3];
  alignas(64) uint8_t bytes_[kInt8Group * kInt8Panel];
  alignas(64) float totals_[kTotalRows * kInt8Block], parts_[kInt8BlockSums];
  Int8Pipeline<Tiles, Int4Target> pipeline_;
};

// Whether tiles can multiply these codes.
inline bool can_use_tiles(const Int4Header& header) {
  return header.group >= kInt8Step && header.sub_group == 0 &&
         (header.values == CodeValues::kUniform || header.values == CodeValues::kFp4);
}

// REQUIRES: can_use_tiles().
template <class Tiles>
void matmul_int4_tiles(const MatmulArgs& args) {
  const Tiles configured;
  TileInt4Product<Tiles>(args).run();
}

}  // namespace
}  // namespace pagedinfer
