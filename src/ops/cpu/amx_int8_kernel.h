// Products in int8 on AMX tiles of 16 rows of 64 bytes. The left operand is the input: 64 columns
// of 16 rows. The right operand is weights in panels, which have a sign here (int8_layout.h): a row
// of a tile is four columns of 16 outputs. So a tile of sums is (rows, outputs).
//
// With few rows this is bound by reading the weights. With many, by the multiplications and by the
// sums of each group, which become float32 and are added to the totals. While a block of 32 rows
// and 32 outputs is multiplied, the one before it is stored, between the first multiplications, and
// the one before that is added to its totals. So nothing waits for a tile, which would block what
// follows.
//
// The template argument Tiles is the processor's tiles (amx_matmul.cpp) or, in tests, plain loops.
#pragma once

#include "ops/cpu/int8_panels.h"
#include "ops/cpu/prefetch.h"

namespace pagedinfer {
namespace {

constexpr int kInt8Block = 32;  // rows, and outputs, of a block of sums
constexpr int kInt8BlockSums = kInt8Block * kInt8Block;
constexpr int kTotalRows = 128;      // whose totals, of 32 outputs, stay in the first-level cache
constexpr int kHeldBytes = 1 << 20;  // of the input, in the second-level cache
constexpr int kHeldInt8Columns = kHeldBytes / kInt8RowBlock;

FORCE_INLINE f32x16 to_float(const i32x16& numbers) {
  f32x16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = __builtin_convertvector(numbers.part[p], Native);
  return r;
}
// The sums of row m and one half of the outputs.
FORCE_INLINE i32x16 sums_of_row(const int32_t* sums, int m, int half) {
  return load(sums + m / 16 * 512 + half * 256 + m % 16 * 16);
}

// Where the sums of a group of columns go. The place of row m and output n in the 32 x 32 sums is
// that of tiles: the first 16 rows by outputs 0 to 15, and 16 to 31; then the other rows.
struct Int8Target {
  float* totals;        // (32, 32)
  const float* scales;  // of the rows
  bool is_first;        // the totals begin at +0

  // Adds `count` rows from row `first` on.
  template <int count>
  FORCE_INLINE void add(const int32_t* sums, int first) const {
    is_first ? add<count, true>(sums, first) : add<count, false>(sums, first);
  }

 private:
  // totals = fma(float(sum), scale of the row, totals)
  template <int count, bool kFirst>
  FORCE_INLINE void add(const int32_t* sums, int first) const {
#pragma GCC unroll 8
    for (int m = first; m < first + count; ++m) {
      const f32x16 scale = broadcast(scales[m]);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        float* const to = totals + m * kInt8Block + half * 16;
        store(to, fma(to_float(sums_of_row(sums, m, half)), scale,
                      kFirst ? broadcast(0.0f) : load(to)));
      }
    }
  }
};

template <class Tiles, class Target>
class Int8Pipeline {
 public:
  // A block of weights and of the input, whose second 16 rows begin `second` numbers further on.
  struct Operands {
    const int8_t* x;
    int64_t second;
    const uint8_t* weights;
    int steps;  // of kInt8Step columns, at most 4
  };

  template <class Prefetcher>
  FORCE_INLINE void multiply(const Operands& o, const Target& target, Prefetcher& prefetcher,
                             int lines) {
    exchange<0>();
    Tiles::template load<4>(o.weights, kFourBytes);
    Tiles::template load_once<6>(o.x, kInt8Group);
    Tiles::template multiply_int8<0, 6, 4>();
    exchange<1>();
    Tiles::template load<5>(o.weights + 64, kFourBytes);
    Tiles::template multiply_int8<1, 6, 5>();
    exchange<2>();
    Tiles::template load_once<7>(o.x + o.second, kInt8Group);
    Tiles::template multiply_int8<2, 7, 4>();
    exchange<3>();
    Tiles::template multiply_int8<3, 7, 5>();
    prefetcher.fetch(lines);
    add_rows(0);
    constexpr int kMaxSteps = kInt8Group / kInt8Step;
#pragma GCC unroll 3
    for (int i = 1; i < kMaxSteps; ++i) {
      if (i < o.steps) {
        const uint8_t* const weights = o.weights + i * kInt8Step * kInt8Panel;
        const int8_t* const x = o.x + i * kInt8Step;
        Tiles::template load<4>(weights, kFourBytes);
        Tiles::template load_once<6>(x, kInt8Group);
        Tiles::template multiply_int8<0, 6, 4>();
        Tiles::template load<5>(weights + 64, kFourBytes);
        Tiles::template multiply_int8<1, 6, 5>();
        Tiles::template load_once<7>(x + o.second, kInt8Group);
        Tiles::template multiply_int8<2, 7, 4>();
        Tiles::template multiply_int8<3, 7, 5>();
        prefetcher.fetch(lines);
      }
      add_rows(i * kRowsOfAPart);
    }
    step_on(target, true);
  }
  // Completes the totals of all that was multiplied.
  void drain() {
    for (int i = 0; i < 2; ++i) {
      for (int m = 0; m < kInt8Block; m += kRowsOfAPart) add_rows(m);
      exchange<0>();
      exchange<1>();
      exchange<2>();
      exchange<3>();
      step_on({}, false);
    }
  }

 private:
  static constexpr int kRowsOfAPart = 8;
  struct Sums {
    int32_t* sums;
    Target target;
    bool is_used;
  };

  // Stores a tile of the block before and begins one of this block.
  template <int kTile>
  FORCE_INLINE void exchange() {
    Tiles::template store<kTile>(multiplied_.sums + kTile * 256, 64);
    Tiles::template zero<kTile>();
  }
  FORCE_INLINE void step_on(const Target& target, bool is_used) {
    int32_t* const free = stored_.sums;
    stored_ = multiplied_;
    multiplied_ = {free, target, is_used};
  }
  FORCE_INLINE void add_rows(int first) {
    if (stored_.is_used) stored_.target.template add<kRowsOfAPart>(stored_.sums, first);
  }

  alignas(64) int32_t sums_[2][kInt8BlockSums];
  Sums multiplied_ = {sums_[0], {}, false}, stored_ = {sums_[1], {}, false};
};

template <class Tiles>
class TileInt8Product {
 public:
  explicit TileInt8Product(const MatmulArgs& args)
      : args_(args),
        input_(args.packed, args.num_rows, args.k),
        streams_(args.streams_y &&
                 ((uintptr_t)(args.y + args.first) | args.y_stride * sizeof(float)) % 64 == 0) {}

  void run() {
    const int rows = args_.last_row - args_.first_row;
    const int parts = (rows + kInt8RowBlock - 1) / kInt8RowBlock;
    const int part = ((rows + parts - 1) / parts + kInt8Block - 1) / kInt8Block * kInt8Block;
    const int held = int64_t(part) * args_.k <= kHeldBytes ? args_.k : kHeldInt8Columns;
    for (int row = args_.first_row; row < args_.last_row; row += part) {
      const int end = args_.last_row - row < part ? args_.last_row : row + part;
      // Few rows take a panel as a whole, so that it is read from memory in one run.
      const int halves = end - row <= kTotalRows / 2 ? 2 : 1;
      for (int k = 0; k < args_.k; k += held) {
        const int last = args_.k - k < held ? args_.k : k + held;
        for (int n = args_.first; n < args_.last; n += halves * kInt8Block) {
          for (int first = row; first < end; first += kTotalRows) {
            const int some = end - first < kTotalRows ? end - first : kTotalRows;
            multiply({first, some, (end - row + kTotalRows - 1) / kTotalRows,
                      (first - row) / kTotalRows, n, halves, k, last});
          }
        }
      }
    }
    _mm_sfence();
  }

 private:
  // `rows` rows times 32 or 64 outputs; with the first columns they begin their totals, with the
  // last they end.
  struct Piece {
    int row, rows;
    int parts, part;  // this is one of so many with the same outputs
    int output, halves;
    int first, last;  // columns
  };

  float* totals(int half) { return totals_ + half * (kTotalRows / 2) * kInt8Block; }
  // Calls f(half, its first output, how many outputs it has).
  template <class F>
  FORCE_INLINE void for_halves(const Piece& p, const F& f) {
    for (int half = 0; half < p.halves; ++half) {
      const int output = p.output + half * kInt8Block, left = args_.last - output;
      if (left > 0) f(half, output, left < kInt8Block ? left : kInt8Block);
    }
  }

  void multiply(const Piece& p) {
    if (p.first > 0) load_totals(p);
    const uint8_t* const panel =
        (const uint8_t*)args_.weights + p.output / kInt8Panel * args_.weight_stride;
    const int place = p.output % kInt8Panel, blocks = (p.rows + kInt8Block - 1) / kInt8Block;
    for (int k = p.first; k < p.last; k += kInt8Group) {
      constexpr int kDistance = 65536, kLines = kInt8Group * kInt8Panel / 64, kMaxSteps = 4;
      const uint8_t* const weights = panel + int64_t(k) * kInt8Panel;
      // All pieces that read this group share the lines that lie kDistance further on.
      const int lines = kLines * p.halves / 2 / p.parts, shares = kMaxSteps * blocks * p.halves;
      RowPrefetcher prefetcher = {
          (const char*)weights + kDistance + (place / kInt8Block * p.parts + p.part) * lines * 64,
          INT64_MAX, INT64_MAX};
      const int columns = args_.k - k < kInt8Group ? args_.k - k : kInt8Group;
      for (int half = 0; half < p.halves; ++half) {
        for (int i = 0; i < blocks; ++i) {
          const int row = p.row + i * kInt8Block;
          const int64_t at = input_.at(k / kInt8Group, row);
          // Without a second tile of rows the first one is multiplied twice.
          pipeline_.multiply({.x = input_.numbers + at * kInt8Group,
                              .second = row + 16 < args_.last_row ? 16 * kInt8Group : 0,
                              .weights = weights + (place + half * kInt8Block) * kFour,
                              .steps = (columns + kInt8Step - 1) / kInt8Step},
                             {totals(half) + i * kInt8BlockSums, input_.scales + at, k == 0},
                             prefetcher, (lines + shares - 1) / shares);
        }
      }
    }
    pipeline_.drain();
    store_totals(p, (const float*)(panel + int8_scales_at(args_.k)) + place);
  }

  // Totals wait in y for the columns that follow.
  void load_totals(const Piece& p) {
    for_halves(p, [&](int half, int output, int count) {
      for (int m = 0; m < p.rows; ++m) {
        memcpy(totals(half) + m * kInt8Block, args_.y + (p.row + m) * args_.y_stride + output,
               count * sizeof(float));
      }
    });
  }
  void store_totals(const Piece& p, const float* scales) {
    const bool ends = p.last == args_.k;
    for_halves(p, [&](int half, int output, int count) {
      f32x16 scale[2];
      for (int i = 0; i < 2; ++i) {
        scale[i] = ends ? load(scales + half * kInt8Block + i * 16) : broadcast(1.0f);
      }
      for (int m = 0; m < p.rows; ++m) {
        float* const y = args_.y + (p.row + m) * args_.y_stride + output;
        for (int i = 0; i < 2 && i * 16 < count; ++i) {
          const f32x16 total = load(totals(half) + m * kInt8Block + i * 16) * scale[i];
          if (ends && streams_ && count == kInt8Block) {
            store_past_caches(y + i * 16, total);
          } else {
            store_part(y + i * 16, count - i * 16, total);
          }
        }
      }
    });
  }

  const MatmulArgs& args_;
  const Int8Input<int8_t> input_;
  const bool streams_;  // whole lines of y go past the caches, so that they are not read first
  alignas(64) float totals_[kTotalRows * kInt8Block];
  Int8Pipeline<Tiles, Int8Target> pipeline_;
};

// Tiles take columns by kInt8Step, to which weights and input are padded.
template <class Tiles>
void matmul_int8_tiles(const MatmulArgs& args) {
  const Tiles configured;
  TileInt8Product<Tiles>(args).run();
}

}  // namespace
}  // namespace pagedinfer
