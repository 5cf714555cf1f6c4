// Products with codes in vectors of any instruction set. With few rows they are bound by
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
// multiply too where there is no room beside them: `is_tall` is CpuOptions::tall_tiles.
constexpr int unpacked_rows(CodeValues values, bool is_tall) {
  if (kNativeLanes < 16) return 1;
  if (bits_of(values) > 4) return 2 * kInt4Rows + 1;
  return is_tall ? 3 * kInt4Rows + 1 : 16 * kInt4Rows;
}

// Weights of a tile: eight columns of its outputs, the first and the second half apart.
template <CodeValues kValues>
struct PackedCodes {
  static constexpr int kEightBytes = bytes_of_eight(kValues);
  static constexpr bool kWide = is_wide(kValues);
  template <int kHalf>
  static FORCE_INLINE NativeCodes numbers(const uint8_t* eight, int at) {
    return numbers_at<kValues, kHalf>(eight, at);
  }
};
template <bool kIsWide>
struct UnpackedCodes {
  static constexpr int kEightBytes = 2 * kInt4EightBytes;
  static constexpr bool kWide = kIsWide;
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

// What a tile prefetches: with every eight columns so many of the lines of as many columns of
// packed codes, `distance` bytes further on.
struct TilePrefetches {
  int64_t distance;
  int eight_bytes, first_line, lines;
  bool to_first_level;
  bool near_too;  // also what is read kNear bytes later, from the second level to the first one
  static constexpr int64_t kNear = 2 << 10;

  // `codes`: what is read now.
  FORCE_INLINE void fetch(const uint8_t* ahead, const uint8_t* codes) const {
    const auto* const at = (const char*)ahead;
    if (to_first_level) {
      for (int i = 0; i < lines; ++i) _mm_prefetch(at + i * 64, _MM_HINT_T0);
    } else if (near_too) {
      const auto* const near = (const char*)codes + kNear;
      for (int i = 0; i < lines; ++i) {
        _mm_prefetch(at + i * 64, _MM_HINT_T1);
        _mm_prefetch(near + i * 64, _MM_HINT_T0);
      }
    } else {
      for (int i = 0; i < lines; ++i) _mm_prefetch(at + i * 64, _MM_HINT_T1);
    }
  }
};

struct Int4Tiles {
  // kInt4Outputs outputs from `output` on; `w` and `total` are of output 0. `part`: room for the
  // parts of the tile.
  template <class Codes, int kRows>
  static __attribute__((noinline)) void tile(const Int4Input& input, int64_t at,
                                             const Int4Block& block, const uint8_t* w,
                                             int64_t group_bytes, int output,
                                             const TilePrefetches& prefetches, float* part,
                                             float* total) {
    const int8_t* x = input.numbers + at * kInt8Group;
    const int16_t* const sums = input.sums + at * kNumSums + sums_at(block.group);
    const int from = kInt4Outputs == kInt8Panel ? 0 : output * kFour;
    total += output;
    unrolled<kRows * kInt4Vectors>(
        [&]<int i>() INLINE_LAMBDA { store_native(part + i * kNativeLanes, Native{}); });
    for (int g = 0; g < block.groups; ++g, w += group_bytes) {
      NativeCodes sum[kRows][kInt4Vectors];
      begin_sums<kRows>(block, g, output, sums, sum);
      const uint8_t* eight = w;
      const uint8_t* ahead = block.panel.ahead_of(
          block.codes + g * block.group_bytes + prefetches.first_line * 64, prefetches.distance);
      for (int i = 0; i < block.columns_of(g); i += kInt4Eight, x += kInt4Eight) {
        prefetches.fetch(ahead, eight);
        ahead += prefetches.eight_bytes;
        unrolled<2>([&]<int half>() INLINE_LAMBDA {
          NativeCodes weights[kInt4Vectors];
          unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
            weights[v] = Codes::template numbers<half>(
                eight, from + v * static_cast<int>(sizeof(NativeCodes)));
          });
          unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
            int32_t four;
            memcpy(&four, x + m * kInt8Group + half * kFour, sizeof four);
            const NativeCodes numbers = four - NativeCodes{};
            unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
              add_fours<Codes::kWide>(sum[m][v], weights[v], numbers);
            });
          });
        });
        eight += Codes::kEightBytes;
      }
      add_group<kRows>(block, g, output, sums + g, sum, part);
    }
    block.is_super_block ? end_super_block<kRows>(input, at, block, output, part, total)
                         : end_groups<kRows>(input, at, block, part, total);
  }

  // The sums of group g begin at the zero points times minus the sums of their inputs.
  template <int kRows>
  static FORCE_INLINE void begin_sums(const Int4Block& block, int g, int output,
                                      const int16_t* sums,
                                      NativeCodes (&sum)[kRows][kInt4Vectors]) {
    if (!block.has_zeros) {
      const int32_t zero = block.has_short_sums ? Int4Block::kMiddle : block.zero;
      unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
        const NativeCodes begin = zero * sums[m * kNumSums + g] - NativeCodes{};
        unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA { sum[m][v] = begin; });
      });
      return;
    }
    unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
      const NativeCodes zeros = load_words_of(block.zeros[g] + output + v * kNativeLanes);
      unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
        sum[m][v] = multiply_words(zeros, sums[m * kNumSums + g] - NativeCodes{});
      });
    });
  }

  // Multiplies the sums of a sub-block by its scales and adds them to the parts, which are
  // integers.
  template <int kRows, bool kShort>
  static FORCE_INLINE void add_sub_block(const Int4Block& block, int g, int output,
                                         const NativeCodes (&sum)[kRows][kInt4Vectors],
                                         float* part) {
    unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
      const NativeCodes scale = load_words_of(block.sub_scales[g] + output + v * kNativeLanes);
      unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
        auto* const to = (int32_t*)part + m * kInt4Outputs + v * kNativeLanes;
        NativeCodes of_part = load_words_of(to);
        if constexpr (kShort) {
          add_words(of_part, scale, sum[m][v]);
        } else {
          of_part += sum[m][v] * scale;
        }
        *(i32x16::InMemory*)to = of_part;
      });
    });
  }
  // Adds the sums of a group to the parts. `sums`: minus the sums of the group's inputs.
  template <int kRows>
  static FORCE_INLINE void add_group(const Int4Block& block, int g, int output, const int16_t* sums,
                                     const NativeCodes (&sum)[kRows][kInt4Vectors], float* part) {
    if (block.is_super_block) {
      return block.has_short_sums ? add_sub_block<kRows, true>(block, g, output, sum, part)
                                  : add_sub_block<kRows, false>(block, g, output, sum, part);
    }
    unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
      const Native scale = load_native(block.scales[g] + output + v * kNativeLanes);
      unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
        float* const to = part + m * kInt4Outputs + v * kNativeLanes;
        store_native(
            to, fma_native(__builtin_convertvector(sum[m][v], Native), scale, load_native(to)));
      });
    });
    if (!block.has_minima) return;
    const float* const minima = block.scales[Int4Block::kMinima + g] + output;
    unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
      const Native minimum = load_native(minima + v * kNativeLanes);
      unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
        float* const to = part + m * kInt4Outputs + v * kNativeLanes;
        const Native of_numbers = static_cast<float>(sums[m * kNumSums]) - Native{};
        store_native(to, fma_native(of_numbers, minimum, load_native(to)));
      });
    });
  }

  // Adds the parts to the totals.
  template <int kRows>
  static FORCE_INLINE void end_groups(const Int4Input& input, int64_t at, const Int4Block& block,
                                      const float* part, float* total) {
    unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
      unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
        add_part<m, v>(input, at, block, load_native(part + m * kInt4Outputs + v * kNativeLanes),
                       total);
      });
    });
  }
  template <int kRows>
  static FORCE_INLINE void end_super_block(const Int4Input& input, int64_t at,
                                           const Int4Block& block, int output, const float* part,
                                           float* total) {
    if (!block.has_minima) {
      end_super_block<kRows, 0, false>(input, at, block, output, part, total);
    } else if (block.has_short_sums) {
      end_super_block<kRows, 4, true>(input, at, block, output, part, total);
    } else if (block.groups == 8) {
      end_super_block<kRows, 4, false>(input, at, block, output, part, total);
    } else {
      end_super_block<kRows, 8, false>(input, at, block, output, part, total);
    }
  }
  template <int kRows, int kPairs, bool kShort>
  static FORCE_INLINE void end_super_block(const Int4Input& input, int64_t at,
                                           const Int4Block& block, int output, const float* part,
                                           float* total) {
    unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
      const int16_t* const sums = input.sums + (at + m) * kNumSums + sums_at(block.group);
      NativeCodes pairs[kPairs > 0 ? kPairs : 1];
      for (int i = 0; i < kPairs; ++i) pairs[i] = repeat_pair(sums + 2 * i);
      unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
        const int of_vector = output + v * kNativeLanes;
        const auto* const of_codes = (const int32_t*)part + m * kInt4Outputs + v * kNativeLanes;
        NativeCodes sum = load_words_of(of_codes);
        if constexpr (kShort) {
          sum -= Int4Block::kMiddle * sum_of_pairs<kPairs>(block.scale_pairs, of_vector, pairs);
        }
        const Native scale = load_native(block.scales[0] + of_vector);
        Native scaled = fma_native(__builtin_convertvector(sum, Native), scale, Native{});
        if constexpr (kPairs > 0) {
          const NativeCodes of_minima = sum_of_pairs<kPairs>(block.minima, of_vector, pairs);
          scaled = fma_native(__builtin_convertvector(of_minima, Native),
                              load_native(block.scales[1] + of_vector), scaled);
        }
        add_part<m, v>(input, at, block, scaled, total);
      });
    });
  }
  // `total`: of the first output of the tile.
  template <int m, int v>
  static FORCE_INLINE void add_part(const Int4Input& input, int64_t at, const Int4Block& block,
                                    Native part, float* total) {
    float* const to = total + m * kInt8Panel + v * kNativeLanes;
    const Native of_input = input.scales[at + m] - Native{};
    store_native(to, fma_native(part, of_input, block.is_first ? Native{} : load_native(to)));
  }
  static FORCE_INLINE NativeCodes load_words_of(const int32_t* from) {
    return load_codes((const uint8_t*)from);
  }
  // Multiplies each sub-minimum, or each sub-scale, by minus the sum of its inputs, and adds the
  // products. A lane of `of_block` and of `sums` has two of them.
  template <int kPairs>
  static FORCE_INLINE NativeCodes sum_of_pairs(const int32_t (*of_block)[kInt8Panel], int output,
                                               const NativeCodes* sums) {
    NativeCodes sum = {};
    for (int i = 0; i < kPairs; ++i) {
      add_words(sum, load_words_of(of_block[i] + output), sums[i]);
    }
    return sum;
  }

  // All tiles together prefetch as much as the block has. One tile alone asks for what it reads
  // soon.
  template <class Codes>
  static void multiply_rows(const Int4Input& input, int64_t at, int rows, const Int4Block& block,
                            const uint8_t* w, int64_t group_bytes, int eight_bytes, float* total) {
    const int tiles = (rows + kInt4Rows - 1) / kInt4Rows;
    const int all = tiles * (kInt8Panel / kInt4Outputs), lines = eight_bytes / 64;
    const int64_t distance = !block.is_near ? block.distance
                             : all == 1     ? block.soon
                                            : block.block_bytes;
    alignas(64) float part[kInt4Rows * kInt4Outputs];
    int i = 0;
    for (int output = 0; output < kInt8Panel; output += kInt4Outputs) {
      for (int t = 0; t < tiles; ++t, ++i) {
        const int first = rows * t / tiles, last = rows * (t + 1) / tiles;
        const int line = lines * i / all;
        const TilePrefetches prefetches = {.distance = distance,
                                           .eight_bytes = eight_bytes,
                                           .first_line = line,
                                           .lines = lines * (i + 1) / all - line,
                                           .to_first_level = block.is_near,
                                           .near_too = all == 1 && !block.is_super_block};
        with_rows<kInt4Rows>(last - first, [&]<int kRows>() {
          tile<Codes, kRows>(input, at + first, block, w, group_bytes, output, prefetches, part,
                             total + first * kInt8Panel);
        });
        if (i == 0 && block.is_super_block) block.prefetch_side();
      }
    }
  }

  template <CodeValues kValues>
  static void multiply(const Int4Input& input, int64_t at, int rows, const Int4Block& block,
                       float* total) {
    constexpr bool kIsBytes = kValues == CodeValues::kBytes;
    constexpr int kEightBytes = bytes_of_eight(kValues);
    if constexpr (kIsBytes || kNativeLanes == 16) {
      if (kIsBytes || rows < unpacked_rows(kValues, block.is_tall)) {
        return multiply_rows<PackedCodes<kValues>>(input, at, rows, block, block.codes,
                                                   block.group_bytes, kEightBytes, total);
      }
    }
    if constexpr (!kIsBytes) {
      alignas(64) uint8_t bytes[kInt8Group * kInt8Panel];
      unpack_codes<kValues>(block, bytes);
      multiply_rows<UnpackedCodes<is_wide(kValues)>>(
          input, at, rows, block, bytes, int64_t{block.group} * kInt8Panel, kEightBytes, total);
    }
  }

  static void multiply(const Int4Input& input, int64_t at, int rows, CodeValues values,
                       const Int4Block& block, float* total) {
    using enum CodeValues;
    switch (values) {
      case kUniform: return multiply<kUniform>(input, at, rows, block, total);
      case kFp4: return multiply<kFp4>(input, at, rows, block, total);
      case kTable: return multiply<kTable>(input, at, rows, block, total);
      case kUniform5: return multiply<kUniform5>(input, at, rows, block, total);
      case kUniform6: return multiply<kUniform6>(input, at, rows, block, total);
      case kBytes: return multiply<kBytes>(input, at, rows, block, total);
    }
  }
};

}  // namespace
}  // namespace pagedinfer
