// Products with codes of 4 bits in vectors of any instruction set. With few rows they are bound by
// reading the codes, with many by the instructions that multiply: then codes become bytes once, in
// the first-level cache, for all rows.
#pragma once

#include "ops/cpu/int4_panels.h"
#include "ops/cpu/row_tiles.h"

namespace pagedinfer {
namespace {

// The sums of a tile stay in registers: 6 * 4 of 32, or 4 * 2 of 16.
constexpr int kInt4Rows = kNativeLanes == 16 ? 6 : kNativeLanes == 8 ? 4 : 2;
constexpr int kInt4Vectors = kNativeLanes == 16 ? 4 : 2;
constexpr int kInt4Outputs = kInt4Vectors * kNativeLanes;  // of a tile
// Rows from which codes become bytes first. The shift and the table cost instructions that
// multiply too where there is no room beside them.
constexpr int kUnpackedRows = kNativeLanes == 16 ? 16 * kInt4Rows : 1;

// Weights of a tile: eight columns of its outputs, of which the first and the second half are asked
// for apart.
template <CodeValues kValues>
struct PackedCodes {
  static constexpr int kEightBytes = kInt4EightBytes, kPrefetched = kEightBytes / 64;
  template <int kHalf>
  static FORCE_INLINE NativeCodes numbers(const uint8_t* eight) {
    const NativeCodes both = load_codes(eight);
    return numbers_of<kValues>(kHalf ? upper_halves(both) : lower_halves(both));
  }
};
struct UnpackedCodes {
  static constexpr int kEightBytes = 2 * kInt4EightBytes, kPrefetched = 0;
  template <int kHalf>
  static FORCE_INLINE NativeCodes numbers(const uint8_t* eight) {
    return load_codes(eight + kHalf * kInt4EightBytes);
  }
};

// Numbers of a block in bytes, as UnpackedCodes reads them: group after group without gaps.
template <CodeValues kValues>
void unpack_codes(const Int4Block& block, uint8_t* bytes) {
  for (int g = 0; g < block.groups; ++g) {
    const uint8_t* from = block.codes + g * block.group_bytes;
    for (int c = 0; c < block.columns_of(g); c += kInt4Eight) {
      for (int at = 0; at < kInt4EightBytes;
           at += sizeof(NativeCodes), from += sizeof(NativeCodes)) {
        const NativeCodes both = load_codes(from);
        if (at % 64 == 0) _mm_prefetch((const char*)from + Int4Block::kAhead, _MM_HINT_T1);
        *(i32x16::InMemory*)(bytes + at) = numbers_of<kValues>(lower_halves(both));
        *(i32x16::InMemory*)(bytes + kInt4EightBytes + at) =
            numbers_of<kValues>(upper_halves(both));
      }
      bytes += 2 * kInt4EightBytes;
    }
  }
}

struct Int4Tiles {
  // kInt4Outputs outputs from `output` on; `w` and `total` are of output 0. `part`: room for the
  // parts of the tile.
  template <class Codes, int kRows>
  static __attribute__((noinline)) void tile(const Int4Input& input, int64_t at,
                                             const Int4Block& block, const uint8_t* w,
                                             int64_t group_bytes, int output, float* part,
                                             float* total) {
    const int8_t* x = input.numbers + at * kInt8Group;
    const int32_t* const sums = input.sums + at * kNumSums + sums_at(block.group);
    w += output * kFour;
    total += output;
    for (int g = 0; g < block.groups; ++g, w += group_bytes) {
      NativeCodes sum[kRows][kInt4Vectors];
      unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
        const NativeCodes zeros =
            load_codes((const uint8_t*)(block.zeros[g] + output + v * kNativeLanes));
        unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
          sum[m][v] = multiply_words(zeros, sums[m * kNumSums + g] - NativeCodes{});
        });
      });
      const uint8_t* eight = w;
      for (int i = 0; i < block.columns_of(g); i += kInt4Eight, x += kInt4Eight) {
        unrolled<Codes::kPrefetched>([&]<int line>() INLINE_LAMBDA {
          _mm_prefetch((const char*)eight + Int4Block::kAhead + line * 64, _MM_HINT_T1);
        });
        unrolled<2>([&]<int half>() INLINE_LAMBDA {
          NativeCodes weights[kInt4Vectors];
          unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
            weights[v] =
                Codes::template numbers<half>(eight + v * static_cast<int>(sizeof(NativeCodes)));
          });
          unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
            int32_t four;
            memcpy(&four, x + m * kInt8Group + half * kFour, sizeof four);
            const NativeCodes numbers = four - NativeCodes{};
            unrolled<kInt4Vectors>(
                [&]<int v>() INLINE_LAMBDA { add_fours(sum[m][v], weights[v], numbers); });
          });
        });
        eight += Codes::kEightBytes;
      }
      const bool is_last = g + 1 == block.groups;
      unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
        const Native scale = load_native(block.scales[g] + output + v * kNativeLanes);
        unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
          float* const of_part = part + m * kInt4Outputs + v * kNativeLanes;
          const Native before = g == 0 ? Native{} : load_native(of_part);
          const Native sum_so_far =
              fma_native(__builtin_convertvector(sum[m][v], Native), scale, before);
          if (!is_last) return store_native(of_part, sum_so_far);
          float* const to = total + m * kInt8Panel + v * kNativeLanes;
          const Native of_input = input.scales[at + m] - Native{};
          store_native(
              to, fma_native(sum_so_far, of_input, block.is_first ? Native{} : load_native(to)));
        });
      });
    }
  }

  template <class Codes>
  static void multiply_rows(const Int4Input& input, int64_t at, int rows, const Int4Block& block,
                            const uint8_t* w, int64_t group_bytes, float* total) {
    const int tiles = (rows + kInt4Rows - 1) / kInt4Rows;
    alignas(64) float part[kInt4Rows * kInt4Outputs];
    for (int output = 0; output < kInt8Panel; output += kInt4Outputs) {
      for (int t = 0; t < tiles; ++t) {
        const int first = rows * t / tiles, last = rows * (t + 1) / tiles;
        with_rows<kInt4Rows>(last - first, [&]<int kRows>() {
          tile<Codes, kRows>(input, at + first, block, w, group_bytes, output, part,
                             total + first * kInt8Panel);
        });
      }
    }
  }

  template <CodeValues kValues>
  static void multiply(const Int4Input& input, int64_t at, int rows, const Int4Block& block,
                       float* total) {
    if constexpr (kUnpackedRows > 1) {
      if (rows < kUnpackedRows) {
        return multiply_rows<PackedCodes<kValues>>(input, at, rows, block, block.codes,
                                                   block.group_bytes, total);
      }
    }
    alignas(64) uint8_t bytes[kInt8Group * kInt8Panel];
    unpack_codes<kValues>(block, bytes);
    multiply_rows<UnpackedCodes>(input, at, rows, block, bytes, int64_t{block.group} * kInt8Panel,
                                 total);
  }

  static void multiply(const Int4Input& input, int64_t at, int rows, CodeValues values,
                       const Int4Block& block, float* total) {
    if (values == CodeValues::kUniform) {
      multiply<CodeValues::kUniform>(input, at, rows, block, total);
    } else {
      multiply<CodeValues::kFp4>(input, at, rows, block, total);
    }
  }
};

}  // namespace
}  // namespace pagedinfer
