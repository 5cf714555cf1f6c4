// The sums of a tile of products with codes: what they begin with, and how they are added to parts
// and totals (docs/numerics.md). Sums stay in registers while a group of columns is multiplied.
#pragma once

#include <algorithm>

#include "ops/cpu/int4_panels.h"
#include "ops/cpu/row_tiles.h"

namespace pagedinfer {
namespace {

// The sums of a tile take 6 * 4 of 32 registers, or 4 * 2 (AVX2) or 2 * 2 (SSE2) of 16.
constexpr int kInt4Rows = kNativeLanes == 16 ? 6 : kNativeLanes == 8 ? 4 : 2;
constexpr int kInt4Vectors = kNativeLanes == 16 ? 4 : 2;
constexpr int kInt4Outputs = kInt4Vectors * kNativeLanes;
// Rows whose parts stay in registers beside their sums.
constexpr int kLowRows = kNativeLanes == 16 ? kInt4Rows / 2 : 0;

// A tile of kRows rows and kInt4Outputs outputs of a block. REQUIRES: end() is called for groups 0,
// 1, ... in order.
template <int kRows, GroupKind kKind>
struct Int4Tile {
  using Sums = NativeCodes[kRows][kInt4Vectors];
  using Registers = Native[kRows][kInt4Vectors];  // the parts of at most kLowRows rows

  Int4Block& block;
  int output;                 // the first one in its panel
  const int16_t* input_sums;  // of Int4Input, of the block's groups and the first row
  const float* scales;        // of the inputs
  float* part;                // (kRows, kInt4Outputs), the parts of more rows than kLowRows
  float* total;               // of the first row and output; rows are kInt8Panel apart

  // `output`, which is a constant where a tile has all outputs of a panel.
  FORCE_INLINE int first_output() const { return kInt4Outputs == kInt8Panel ? 0 : output; }

  // Sets the sums of group g to the zero points times minus the sums of the inputs.
  FORCE_INLINE void begin(int g, Sums& sum) const {
    if constexpr (kKind.has_zeros) {
      unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
        const NativeCodes zeros = load_words_of(block.zeros[g] + place<v>());
        unrolled<kRows>([&]<int m>()
                            INLINE_LAMBDA { sum[m][v] = multiply_words(zeros, sums_of<m>(g)); });
      });
      return;
    }
    const NativeCodes zero = block.zero - NativeCodes{};
    unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
      const NativeCodes of_row = multiply_words(zero, sums_of<m>(g));
      unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA { sum[m][v] = of_row; });
    });
  }

  // Adds the sums of group g to the parts. After the last group the parts are added to the totals.
  FORCE_INLINE void end(int g, const Sums& sum, Registers& registers) const {
    const bool is_first = g == 0, is_last = g + 1 == block.groups;
    if constexpr (kKind.is_sub_block) {
      is_first ? add_sub_block<true>(g, sum, registers) : add_sub_block<false>(g, sum, registers);
      if (is_last) end_super_block(registers);
    } else if (!kKind.has_minima && is_last) {
      is_first ? add_group<true, true>(g, sum, registers)
               : add_group<false, true>(g, sum, registers);
    } else {
      is_first ? add_group<true, false>(g, sum, registers)
               : add_group<false, false>(g, sum, registers);
      if constexpr (kKind.has_minima) {
        add_minima(g, registers);
        if (is_last) end_parts(registers);
      }
    }
  }

 private:
  static FORCE_INLINE NativeCodes load_words_of(const int32_t* from) {
    return load_codes((const uint8_t*)from);
  }
  template <int v>
  FORCE_INLINE int place() const {
    return first_output() + v * kNativeLanes;
  }
  template <int m, int v>
  FORCE_INLINE float* place_of_part() const {
    return part + m * kInt4Outputs + v * kNativeLanes;
  }
  // The part of row m and register v: numbers in float32, in super-blocks in int32_t.
  template <class Vector, int m, int v>
  FORCE_INLINE typename Vector::Native part_of(const Registers& registers) const {
    if constexpr (kRows <= kLowRows) return (typename Vector::Native)registers[m][v];
    return *(const typename Vector::InMemory*)place_of_part<m, v>();
  }
  template <class Vector, int m, int v>
  FORCE_INLINE void set_part(Registers& registers, typename Vector::Native to) const {
    if constexpr (kRows <= kLowRows) {
      registers[m][v] = (Native)to;
    } else {
      *(typename Vector::InMemory*)place_of_part<m, v>() = to;
    }
  }
  // The lower half of each lane is minus the sum of row m's inputs of group g. The upper half is
  // another sum, so multiply by lanes whose upper half is 0.
  template <int m>
  FORCE_INLINE NativeCodes sums_of(int g) const {
    return repeat_pair(input_sums + m * kNumSums + g);
  }

  // kFirst: the parts begin with this group. kLast: they are added to the totals and not stored.
  template <bool kFirst, bool kLast>
  FORCE_INLINE void add_group(int g, const Sums& sum, Registers& registers) const {
    unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
      const Native scale = load_native(block.scales[g] + place<v>());
      unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
        const Native before = kFirst ? Native{} : part_of<f32x16, m, v>(registers);
        const Native after = fma_native(__builtin_convertvector(sum[m][v], Native), scale, before);
        kLast ? add_part<m, v>(after) : set_part<f32x16, m, v>(registers, after);
      });
    });
  }
  FORCE_INLINE void add_minima(int g, Registers& registers) const {
    unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
      const Native of_numbers = static_cast<float>(input_sums[m * kNumSums + g]) - Native{};
      unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
        const Native minimum = load_native(block.scales[Int4Block::kMinima + g] + place<v>());
        const Native before = part_of<f32x16, m, v>(registers);
        set_part<f32x16, m, v>(registers, fma_native(of_numbers, minimum, before));
      });
    });
  }
  FORCE_INLINE void end_parts(const Registers& registers) const {
    unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
      unrolled<kInt4Vectors>(
          [&]<int v>() INLINE_LAMBDA { add_part<m, v>(part_of<f32x16, m, v>(registers)); });
    });
  }

  // Multiplies the sums of a sub-block by its scales and adds them to the parts.
  template <bool kFirst>
  FORCE_INLINE void add_sub_block(int g, const Sums& sum, Registers& registers) const {
    unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
      const NativeCodes scale = load_words_of(block.sub_scales[g] + place<v>());
      unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
        NativeCodes after;
        if constexpr (kFirst) {
          after = kKind.has_short_sums ? multiply_words(scale, sum[m][v]) : sum[m][v] * scale;
        } else {
          after = part_of<i32x16, m, v>(registers);
          if constexpr (kKind.has_short_sums) {
            add_words(after, scale, sum[m][v]);
          } else {
            after += sum[m][v] * scale;
          }
        }
        set_part<i32x16, m, v>(registers, after);
      });
    });
  }

  FORCE_INLINE void end_super_block(const Registers& registers) const {
    // If this were inlined, g++ would keep the sums of high tiles in memory.
    if constexpr (kKind.has_minima && kRows > kLowRows) return end_in_memory(*this);
    end_rows(registers);
  }
  static __attribute__((noinline)) void end_in_memory(Int4Tile tile) { tile.end_rows({}); }
  // Adds the parts of rows kFirst, kFirst + 1, ... to the totals, kHere rows at a time: registers
  // hold the sums of their inputs.
  template <int kFirst = 0>
  FORCE_INLINE void end_rows(const Registers& registers) const {
    constexpr int kHere = std::min(kRows - kFirst, std::max(kLowRows, 1));
    constexpr int kPairs = kKind.subs / 2;
    NativeCodes pairs[kHere][std::max(kPairs, 1)];
    unrolled<kHere>([&]<int m>() INLINE_LAMBDA {
      for (int i = 0; i < kPairs; ++i) {
        pairs[m][i] = repeat_pair(input_sums + (kFirst + m) * kNumSums + 2 * i);
      }
    });
    unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
      NativeCodes sum[kHere], of_minima[kHere] = {};
      unrolled<kHere>([&]<int m>()
                          INLINE_LAMBDA { sum[m] = part_of<i32x16, kFirst + m, v>(registers); });
      if constexpr (kKind.has_short_sums) add_pairs<v>(sum, block.scale_pairs, pairs);
      if constexpr (kKind.has_minima) add_pairs<v>(of_minima, block.minima, pairs);
      unrolled<kHere>([&]<int m>() INLINE_LAMBDA {
        Native scaled = fma_native(__builtin_convertvector(sum[m], Native),
                                   load_native(block.scales[0] + place<v>()), Native{});
        if constexpr (kKind.has_minima) {
          scaled = fma_native(__builtin_convertvector(of_minima[m], Native),
                              load_native(block.scales[1] + place<v>()), scaled);
        }
        add_part<kFirst + m, v>(scaled);
      });
    });
    if constexpr (kFirst + kHere < kRows) end_rows<kFirst + kHere>(registers);
  }
  // For each row and sub-block: sum += the sub-minimum (or sub-scale) * minus the sum of the
  // inputs. A lane of `of_block` has the sub-minima of two sub-blocks, and a lane of `pairs` the
  // two sums.
  template <int v, int kHere, int kPairs>
  FORCE_INLINE void add_pairs(NativeCodes (&sum)[kHere], const int32_t (*of_block)[kInt8Panel],
                              const NativeCodes (&pairs)[kHere][kPairs]) const {
    for (int i = 0; i < kPairs; ++i) {
      const NativeCodes two = load_words_of(of_block[i] + place<v>());
      unrolled<kHere>([&]<int m>() INLINE_LAMBDA { add_words(sum[m], two, pairs[m][i]); });
    }
  }

  template <int m, int v>
  FORCE_INLINE void add_part(Native of_part) const {
    float* const to = total + m * kInt8Panel + v * kNativeLanes;
    store_native(to, fma_native(of_part, scales[m] - Native{}, load_native(to)));
  }
};

}  // namespace
}  // namespace pagedinfer
