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
// multiply too where there is no room beside them.
constexpr int unpacked_rows(CodeValues values) {
  if (kNativeLanes < 16) return 1;
  return bits_of(values) > 4 ? 2 * kInt4Rows + 1 : 16 * kInt4Rows;
}

// Weights of a tile: eight columns of its outputs, of which the first and the second half are asked
// for apart.
template <CodeValues kValues>
struct PackedCodes {
  static constexpr int kEightBytes = bytes_of_eight(kValues), kPrefetched = kEightBytes / 64;
  static constexpr bool kWide = is_wide(kValues);
  template <int kHalf>
  static FORCE_INLINE NativeCodes numbers(const uint8_t* eight, int at) {
    return numbers_at<kValues, kHalf>(eight, at);
  }
};
template <bool kIsWide>
struct UnpackedCodes {
  static constexpr int kEightBytes = 2 * kInt4EightBytes, kPrefetched = 0;
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
      for (int at = 0; at < bytes_of_eight(kValues); at += 64) {
        _mm_prefetch((const char*)from + Int4Block::kAhead + at, _MM_HINT_T1);
      }
      for (int at = 0; at < kInt4EightBytes; at += sizeof(NativeCodes)) {
        *(i32x16::InMemory*)(bytes + at) = numbers_at<kValues, 0>(from, at);
        *(i32x16::InMemory*)(bytes + kInt4EightBytes + at) = numbers_at<kValues, 1>(from, at);
      }
      from += bytes_of_eight(kValues);
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
    const int from = kInt4Outputs == kInt8Panel ? 0 : output * kFour;
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
      const bool is_last = g + 1 == block.groups;
      if (block.is_super_block) {
        add_sub_block<kRows>(input, at, block, g, output, sum, (int32_t*)part, total);
        continue;
      }
      unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
        const Native scale = load_native(block.scales[g] + output + v * kNativeLanes);
        unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
          float* const of_part = part + m * kInt4Outputs + v * kNativeLanes;
          const Native before = g == 0 ? Native{} : load_native(of_part);
          Native sum_so_far = fma_native(__builtin_convertvector(sum[m][v], Native), scale, before);
          if (block.has_minima) {
            const Native of_numbers = static_cast<float>(sums[m * kNumSums + g]) - Native{};
            const float* const minima = block.scales[Int4Block::kMinima + g];
            sum_so_far =
                fma_native(of_numbers, load_native(minima + output + v * kNativeLanes), sum_so_far);
          }
          if (!is_last) return store_native(of_part, sum_so_far);
          float* const to = total + m * kInt8Panel + v * kNativeLanes;
          const Native of_input = input.scales[at + m] - Native{};
          store_native(
              to, fma_native(sum_so_far, of_input, block.is_first ? Native{} : load_native(to)));
        });
      });
    }
  }

  // Adds the sums of a sub-block to those of its super-block, `parts`, and these at last to the
  // totals.
  template <int kRows>
  static FORCE_INLINE void add_sub_block(const Int4Input& input, int64_t at, const Int4Block& block,
                                         int g, int output,
                                         const NativeCodes (&sum)[kRows][kInt4Vectors],
                                         int32_t* parts, float* total) {
    const bool is_last = g + 1 == block.groups;
    unrolled<kInt4Vectors>([&]<int v>() INLINE_LAMBDA {
      const int of_vector = output + v * kNativeLanes;
      const NativeCodes sub_scale = load_words_of(block.sub_scales[g] + of_vector);
      const Native scale = load_native(block.scales[0] + of_vector);
      unrolled<kRows>([&]<int m>() INLINE_LAMBDA {
        int32_t* const of_part = parts + m * kInt4Outputs + v * kNativeLanes;
        NativeCodes so_far = sum[m][v] * sub_scale;
        if (g > 0) so_far += load_words_of(of_part);
        if (!is_last) {
          *(i32x16::InMemory*)of_part = so_far;
          return;
        }
        Native part = fma_native(__builtin_convertvector(so_far, Native), scale, Native{});
        if (block.has_minima) {
          const NativeCodes sums =
              sum_of_minima(input.sums + (at + m) * kNumSums, block, of_vector);
          part = fma_native(__builtin_convertvector(sums, Native),
                            load_native(block.scales[1] + of_vector), part);
        }
        float* const to = total + m * kInt8Panel + v * kNativeLanes;
        const Native of_input = input.scales[at + m] - Native{};
        store_native(to, fma_native(part, of_input, block.is_first ? Native{} : load_native(to)));
      });
    });
  }
  static FORCE_INLINE NativeCodes load_words_of(const int32_t* from) {
    return load_codes((const uint8_t*)from);
  }
  // Sub-minima times minus the sums of their inputs. `sums`: of a row of the input.
  static FORCE_INLINE NativeCodes sum_of_minima(const int32_t* sums, const Int4Block& block,
                                                int output) {
    sums += sums_at(block.group);
    NativeCodes sum = {};
    for (int i = 0; i < block.groups / 2; ++i) {
      const int32_t two = (sums[2 * i] & 0xffff) | (int32_t)((uint32_t)sums[2 * i + 1] << 16);
      sum += multiply_words(load_words_of(block.minima[i] + output), two - NativeCodes{});
    }
    return sum;
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
    constexpr bool kIsBytes = kValues == CodeValues::kBytes;
    if constexpr (kIsBytes || unpacked_rows(kValues) > 1) {
      if (kIsBytes || rows < unpacked_rows(kValues)) {
        return multiply_rows<PackedCodes<kValues>>(input, at, rows, block, block.codes,
                                                   block.group_bytes, total);
      }
    }
    if constexpr (!kIsBytes) {
      alignas(64) uint8_t bytes[kInt8Group * kInt8Panel];
      unpack_codes<kValues>(block, bytes);
      multiply_rows<UnpackedCodes<is_wide(kValues)>>(input, at, rows, block, bytes,
                                                     int64_t{block.group} * kInt8Panel, total);
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
