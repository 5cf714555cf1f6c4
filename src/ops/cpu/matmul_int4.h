// Products with codes in vectors of any instruction set. With few rows they are bound by
// reading the codes, with many by the instructions that multiply: then codes become bytes once, in
// the first-level cache, for all rows.
#pragma once

#include "core/check.h"
#include "ops/cpu/int4_panels.h"
#include "ops/cpu/int4_sums.h"
#include "ops/cpu/row_tiles.h"

namespace pagedinfer {
namespace {

// Rows from which codes become bytes first. The shift and the table cost instructions that
// multiply too where there is no room beside them: `is_tall` is Tuning::tall_tiles.
constexpr int unpacked_rows(CodeValues values, bool is_tall) {
  if (kNativeLanes < 16) return 1;
  if (bits_of(values) > 4) return 2 * kInt4Rows + 1;
  return is_tall ? 3 * kInt4Rows + 1 : 16 * kInt4Rows;
}

// Rows of a tile at most. Low tiles keep parts in registers, but read each weight twice as often.
// They are faster if weights come from the first-level cache and if shifts and masks have other
// ports than multiplications. Codes of 5 and 6 bits take so many shifts and masks that low tiles
// are faster only after the codes became bytes.
constexpr int rows_of_tile(CodeValues values, int rows, bool is_tall) {
  const bool has_high_bits = bits_of(values) == 5 || bits_of(values) == 6;
  const int few = has_high_bits ? unpacked_rows(values, is_tall) - 1 : kInt4Rows + 2;
  return is_tall || kLowRows == 0 || rows <= few ? kInt4Rows : kLowRows;
}

// Lines of eight columns that each of so many tiles prefetches if they share these.
constexpr int shared_lines(CodeValues values, int tiles) {
  return (bytes_of_eight(values) + 64 * tiles - 1) / (64 * tiles);
}

// Weights of a tile: eight columns of its outputs, the first and the second half apart. kMinTiles:
// of two or more that share them.
constexpr int kTilesOfPanel = kInt8Panel / kInt4Outputs;
template <CodeValues kValues>
struct PackedCodes {
  static constexpr int kEightBytes = bytes_of_eight(kValues);
  static constexpr bool kWide = is_wide(kValues), kCanBeOnly = kTilesOfPanel == 1;
  static constexpr bool kIsBytes = kValues == CodeValues::kBytes;
  static constexpr int kMinTiles = kCanBeOnly ? 2 : kTilesOfPanel;
  template <int kHalf>
  static FORCE_INLINE NativeCodes numbers(const uint8_t* eight, int at) {
    return numbers_at<kValues, kHalf>(eight, at);
  }
};
template <CodeValues kValues>
struct UnpackedCodes {
  static constexpr int kEightBytes = 2 * kInt4EightBytes;
  static constexpr bool kWide = is_wide(kValues), kCanBeOnly = false;
  static constexpr bool kIsBytes = true;
  static constexpr int kMinTiles =
      (unpacked_rows(kValues, true) + kInt4Rows - 1) / kInt4Rows * kTilesOfPanel;
  template <int kHalf>
  static FORCE_INLINE NativeCodes numbers(const uint8_t* eight, int at) {
    return load_codes(eight + kHalf * kInt4EightBytes + at);
  }
};

// Numbers of a block in bytes, as UnpackedCodes reads them: group after group without gaps.
template <CodeValues kValues>
void unpack_codes(const Int4Block& block, uint8_t* bytes) {
  for (int g = 0; g < block.groups; ++g) {
    const uint8_t* from = block.codes + g * block.group_bytes;
    for (int c = 0; c < block.columns_of(g); c += kInt4Eight) {
      for (int at = 0; at < kInt4EightBytes; at += sizeof(NativeCodes)) {
        *(i32x16::InMemory*)(bytes + at) = numbers_at<kValues, 0>(from, at);
        *(i32x16::InMemory*)(bytes + kInt4EightBytes + at) = numbers_at<kValues, 1>(from, at);
      }
      from += bytes_of_eight(kValues);
      bytes += 2 * kInt4EightBytes;
    }
  }
}

// kOnly: no other tile reads the same codes. kOnlyNear: the same of bytes, whose prefetches go to
// the first level. One row reads them faster if the loop need not ask for the level.
enum class TileUse { kShared, kOnly, kOnlyNear };

// What a tile prefetches of the codes that are read later: `step` bytes with every eight columns.
// An only tile whose prefetches go to the second level asks for the first level too, for what it
// reads kNear bytes later.
struct TilePrefetches {
  static constexpr int64_t kNear = 2 << 10;

  const uint8_t* ahead;
  int64_t step, group_gap;  // bytes from eight columns to the next; and after each group
  bool to_first_level;      // else to the second level

  // `codes`: what is read now.
  template <int kLines, TileUse kUse>
  FORCE_INLINE void fetch(const uint8_t* codes) {
    const auto *const far = (const char*)ahead, *const soon = (const char*)codes + kNear;
    ahead += step;
    if (kUse == TileUse::kOnlyNear || to_first_level) {
      unrolled<kLines>([&]<int i>() INLINE_LAMBDA { _mm_prefetch(far + i * 64, _MM_HINT_T0); });
      return;
    }
    unrolled<kLines>([&]<int i>() INLINE_LAMBDA {
      _mm_prefetch(far + i * 64, _MM_HINT_T1);
      if constexpr (kUse == TileUse::kOnly) _mm_prefetch(soon + i * 64, _MM_HINT_T0);
    });
  }
  // What follows the codes of a group. Call it after their last fetch().
  FORCE_INLINE void fetch_side() const {
    const auto* const side = (const char*)ahead;
    unrolled<4>([&]<int i>() INLINE_LAMBDA { _mm_prefetch(side + i * 64, _MM_HINT_T0); });
  }
};

struct Int4Tiles {
  // Multiplies a tile of a block. `w`: its codes, or bytes; group_gap bytes follow each group.
  // kLines: of those prefetched with eight columns.
  template <class Codes, TileUse kUse, int kLines, int kRows, GroupKind kKind>
  static __attribute__((noinline)) void multiply_tile(Int4Tile<kRows, kKind> tile, const int8_t* x,
                                                      const uint8_t* w, int64_t group_gap,
                                                      TilePrefetches prefetches) {
    const int from = tile.first_output() * kFour;
    const int groups = tile.block.groups, group = tile.block.group;
    int left = tile.block.columns;
    // An only tile widens the scales of a group beside its codes, so that memory is read in order.
    // It widens them before it reads codes, and after it reads bytes, which leave registers free.
    // If kOnlyNear, the processor's own prefetcher brings the scales of bytes.
    constexpr bool kWidens = kUse != TileUse::kShared && !kKind.is_sub_block;
    typename Int4Tile<kRows, kKind>::Registers registers = {};
    for (int g = 0; g < groups; ++g) {
      const int columns = left < group ? left : group;
      if constexpr (kWidens && !Codes::kIsBytes) {
        tile.block.widen_group(g, w + columns / kInt4Eight * Codes::kEightBytes);
      }
      typename Int4Tile<kRows, kKind>::Sums sum;
      tile.begin(g, sum);
      const int8_t* const end = x + columns;
      left -= group;
      do {
        prefetches.fetch<kLines, kUse>(w);
        unrolled<2>([&]<int half>() INLINE_LAMBDA {
          NativeCodes weights[kInt4Vectors];
          unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
            weights[v] =
                Codes::template numbers<half>(w, from + v * static_cast<int>(sizeof(NativeCodes)));
          });
          unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
            add_columns<Codes::kWide>(sum[m], weights, x + m * kInt8Group + half * kFour);
          });
        });
        x += kInt4Eight;
        w += Codes::kEightBytes;
      } while (x != end);
      if constexpr (kWidens) {
        if constexpr (kUse == TileUse::kOnly) prefetches.fetch_side();
        if constexpr (Codes::kIsBytes) tile.block.widen_group(g, w);
      }
      w += group_gap;
      prefetches.ahead += prefetches.group_gap;
      tile.end(g, sum, registers);
    }
  }

  // Each tile prefetches its part of the block that is read later; if there are many tiles, some
  // lines are asked for more than once. An only tile asks for what it reads soon. kValues: of the
  // packed codes.
  template <class Codes, CodeValues kValues, GroupKind kKind>
  static void multiply_rows(const Int4Input& input, int64_t at, int rows, Int4Block& block,
                            const uint8_t* w, int64_t group_gap, float* total) {
    constexpr int kEightBytes = bytes_of_eight(kValues);
    const int max_rows = rows_of_tile(kValues, rows, block.tuning.tall_tiles);
    const int tiles = (rows + max_rows - 1) / max_rows;
    const int all = tiles * kTilesOfPanel;
    if (all > 1 || kKind.is_sub_block) block.widen();
    const int step = (kEightBytes + all - 1) / all, eights = block.group / kInt4Eight;
    const int64_t distance = block.tuning.near_bytes == 0 ? block.distance
                             : all == 1                   ? block.soon
                                                          : block.block_bytes;
    // A prefetch behind the last block is harmless.
    TilePrefetches prefetches = {.ahead = block.panel.ahead_of(block.codes, distance),
                                 .step = step,
                                 .group_gap = block.group_bytes - eights * step,
                                 .to_first_level = block.tuning.near_bytes > 0};
    alignas(64) float part[kInt4Rows * kInt4Outputs];
    for (int output = 0; output < kInt8Panel; output += kInt4Outputs) {
      for (int t = 0; t < tiles; ++t) {
        const int first = rows * t / tiles, last = rows * (t + 1) / tiles;
        const int64_t row = at + first;
        with_rows<kInt4Rows>(last - first, [&]<int kRows>() {
          const Int4Tile<kRows, kKind> tile = {
              .block = block,
              .output = output,
              .input_sums = input.sums + row * kNumSums + sums_at(block.group),
              .scales = input.scales + row,
              .part = part,
              .total = total + first * kInt8Panel + output};
          const int8_t* const x = input.numbers + row * kInt8Group;
          constexpr int kAll = kEightBytes / 64, kShared = shared_lines(kValues, Codes::kMinTiles);
          if constexpr (Codes::kCanBeOnly) {
            if (all == 1) {
              if constexpr (Codes::kIsBytes) {
                if (block.tuning.near_bytes > 0) {
                  return multiply_tile<Codes, TileUse::kOnlyNear, kAll>(tile, x, w, group_gap,
                                                                        prefetches);
                }
              }
              return multiply_tile<Codes, TileUse::kOnly, kAll>(tile, x, w, group_gap, prefetches);
            }
          }
          if constexpr (kRows <= kLowRows) {
            if (all >= kAll) {
              return multiply_tile<Codes, TileUse::kShared, 1>(tile, x, w, group_gap, prefetches);
            }
          }
          multiply_tile<Codes, TileUse::kShared, kShared>(tile, x, w, group_gap, prefetches);
        });
        prefetches.ahead += eights * step;
        if (output == 0 && t == 0 && block.kind.is_sub_block) {
          block.prefetch_side(block.super_side());
        }
      }
    }
  }

  template <CodeValues kValues, GroupKind kKind>
  static void multiply(const Int4Input& input, int64_t at, int rows, Int4Block& block,
                       float* total) {
    constexpr bool kIsBytes = kValues == CodeValues::kBytes;
    if constexpr (kIsBytes || kNativeLanes == 16) {
      if (kIsBytes || rows < unpacked_rows(kValues, block.tuning.tall_tiles)) {
        return multiply_rows<PackedCodes<kValues>, kValues, kKind>(
            input, at, rows, block, block.codes,
            block.group_bytes - bytes_of_codes(kValues, block.group), total);
      }
    }
    if constexpr (!kIsBytes) {
      alignas(64) uint8_t bytes[kInt8Group * kInt8Panel];
      unpack_codes<kValues>(block, bytes);
      multiply_rows<UnpackedCodes<kValues>, kValues, kKind>(input, at, rows, block, bytes, 0,
                                                            total);
    }
  }

  static void multiply(const Int4Input& input, int64_t at, int rows, Int4Block& block,
                       float* total) {
    const auto with = [&]<CodeValues kValues, GroupKind... kKinds>() {
      const bool is_known = ((block.kind == kKinds &&
                              (multiply<kValues, kKinds>(input, at, rows, block, total), true)) ||
                             ...);
      CHECK(is_known);
    };
    using enum CodeValues;
    switch (block.header->values) {
      case kUniform:
        return with.template operator()<kUniform, kScaled, kWithZeros, kWithMinima, kSubBlock,
                                        kSubBlockOf16, kShortSubBlock>();
      case kFp4: return with.template operator()<kFp4, kScaled>();
      case kTable: return with.template operator()<kTable, kScaled, kSubBlock>();
      case kUniform5:
        return with.template operator()<kUniform5, kScaled, kWithMinima, kSubBlockOf32>();
      case kUniform6: return with.template operator()<kUniform6, kSubBlock>();
      case kBytes: return with.template operator()<kBytes, kScaled>();
    }
  }
};

}  // namespace
}  // namespace pagedinfer
