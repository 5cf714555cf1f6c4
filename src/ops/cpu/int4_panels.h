// The common parts of products with codes: the packing of the input, and the order in
// which panels of weights and rows of the input are used.
#pragma once

#include <algorithm>

#include "ops/cpu/int4_codes.h"
#include "ops/cpu/int8_panels.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/row_tiles.h"

namespace pagedinfer {
namespace {

// Writes the sums of the numbers of a group.
inline void sum_numbers(const int8_t* numbers, int16_t* sums) {
  // Of four sixteens: four sums of the first eight numbers, then four of the last eight.
  const auto eights_of_four = [](const int8_t* first) {
    __m128i eights = _mm_setzero_si128();
    unrolled<4>([&]<int i>() INLINE_LAMBDA {
      eights |= _mm_slli_epi64(sums_of_eights(first + i * kMinCodeGroup), 16 * i);
    });
    return eights;
  };
  const __m128i ones = _mm_set1_epi16(1), zeros = _mm_set1_epi16(kSixteenZeros);
  __m128i of_16[2];
  for (int half = 0; half < 2; ++half) {
    const int8_t* const first = numbers + half * kInt8Group / 2;
    const __m128i a = eights_of_four(first), b = eights_of_four(first + kInt8Group / 4);
    of_16[half] =
        _mm_sub_epi16(zeros, _mm_add_epi16(_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)));
  }
  const auto pairs_of = [&](__m128i a, __m128i b) {
    return _mm_packs_epi32(_mm_madd_epi16(a, ones), _mm_madd_epi16(b, ones));
  };
  const __m128i of_32 = pairs_of(of_16[0], of_16[1]), none = _mm_setzero_si128();
  const __m128i of_64 = pairs_of(of_32, none), of_128 = pairs_of(of_64, none);
  const __m128i last = _mm_unpacklo_epi32(of_128, pairs_of(of_128, none));
  const __m128i all[] = {of_16[0], of_16[1], of_32, _mm_unpacklo_epi64(of_64, last)};
  memcpy(sums, all, kNumSums * sizeof *sums);
}

// Packs rows of the input, in the order of the weights' columns. `to_int8` is that of Kernels.
inline void pack_int4(const PackArgs& args, float (*to_int8)(const float*, int8_t*, int64_t)) {
  const Int4Input to(args.packed, args.num_rows, args.k);
  for (int m = args.first_row; m < args.last_row; ++m) {
    const float* const row = args.x + (m - args.first_row) * args.stride;
    for (int k = args.first_column; k < args.last_column; k += kInt8Group) {
      const int columns = args.k - k < kInt8Group ? args.k - k : kInt8Group;
      float ordered[kInt8Group];
      const float* x = row + (k - args.first_column);
      if (args.order != nullptr) {
        for (int i = 0; i < columns; ++i) ordered[i] = row[args.order[k + i]];
        x = ordered;
      }
      const int64_t at = to.at(k / kInt8Group, m);
      int8_t* const numbers = to.numbers + at * kInt8Group;
      if (columns < kInt8Group) memset(numbers, 0, kInt8Group);
      to.scales[at] = to_int8(x, numbers, columns);
      sum_numbers(numbers, to.sums + at * kNumSums);
    }
  }
}

// A panel, the end of those that a call multiplies, and what the thread reads after them, or null.
struct CodePanel {
  const uint8_t *begin, *end, *after;

  // What lies so many bytes further on; behind the end what comes after.
  const uint8_t* ahead_of(const uint8_t* place, int64_t bytes) const {
    place += bytes;
    return after == nullptr || place < end ? place : after + (place - end);
  }
};

// How the sums of a group begin and how they are added to the parts: with a scale and perhaps zero
// points or a minimum, or as a sub-block of a super-block.
struct GroupKind {
  bool is_sub_block = false, has_minima = false;
  bool has_zeros = false;  // a zero point for each output and group
  int subs = 0;            // sub-blocks of a super-block with minima
  // The zero point is Int4Block::kMiddle, so that the sums of a sub-block fit into 16 bits. A
  // sub-scale has 16 bits too, with zeros above it.
  bool has_short_sums = false;
  bool operator==(const GroupKind&) const = default;
};
constexpr GroupKind kScaled = {}, kWithZeros = {.has_zeros = true},
                    kWithMinima = {.has_minima = true}, kSubBlock = {.is_sub_block = true},
                    kSubBlockOf16 = {.is_sub_block = true, .has_minima = true, .subs = 16},
                    kSubBlockOf32 = {.is_sub_block = true, .has_minima = true, .subs = 8},
                    kShortSubBlock = {.is_sub_block = true,
                                      .has_minima = true,
                                      .subs = 8,
                                      .has_short_sums = true};
constexpr GroupKind kind_of(const Int4Header& header) {
  if (header.has_zeros) return kWithZeros;
  if (header.sub_group == 0) return header.has_minima ? kWithMinima : kScaled;
  if (!header.has_minima) return kSubBlock;
  if (header.sub_group == 16) return kSubBlockOf16;
  const bool is_short = header.values == CodeValues::kUniform && header.zero == 0;
  return is_short ? kShortSubBlock : kSubBlockOf32;
}

// The groups of a panel that belong to a group of the input: where their codes are, and what of
// them is widened once for all rows. A super-block's sub-blocks are its groups.
struct Int4Block {
  const Int4Header* header;
  CodePanel panel;
  const uint8_t* codes;
  int64_t group_bytes, block_bytes;  // from group to group; of a whole block
  int64_t side_bytes;                // that follow the codes of a group or super-block
  // The far prefetch reads `distance` bytes ahead: whole blocks, at least 16 KiB. The near one of
  // an only tile reads `soon` bytes ahead: whole groups, at least 8 KiB; or as many super-blocks as
  // near_bytes hold, at least one.
  int64_t distance, soon;
  int group, groups;  // columns of a group, and how many there are
  int columns;        // of all groups, padded
  int zero;           // that sums begin with, unless kind.has_zeros
  bool is_first;      // for AMX: the totals begin at +0
  Tuning tuning;
  GroupKind kind;  // of a super-block scales[0] and [1] are those of it and of its minima
  static constexpr int kMiddle = 8;
  static constexpr int kMinima = kInt8Group / 32;  // else the minimum of group i is at kMinima + i
  alignas(64) float scales[kMaxCodeGroups][kInt8Panel];
  // AMX reads them even if groups have no zero points. All are zero_of(header) then.
  alignas(64) int32_t zeros[kMaxCodeGroups][kInt8Panel];
  alignas(64) int32_t sub_scales[kMaxCodeGroups][kInt8Panel];
  alignas(64) int32_t minima[kMaxCodeGroups / 2][kInt8Panel];  // two of 16 bits in each
  // For short sums: two sub-scales times -kMiddle in each. Multiplied by the sums of the inputs,
  // they correct sums that began at kMiddle.
  alignas(64) int32_t scale_pairs[kMaxCodeGroups / 2][kInt8Panel];

  static int64_t in_wholes(int64_t min, int64_t whole) { return (min + whole - 1) / whole * whole; }
  // Columns of a group, of which the last one may have fewer.
  int columns_of(int i) const { return columns - i * group < group ? columns - i * group : group; }

  // The block of columns [k, k + kInt8Group) of a panel. What follows its codes is not widened yet.
  FORCE_INLINE void move_to(const Int4Header& of_matrix, const CodePanel& of_panel, int k,
                            int all_columns) {
    header = &of_matrix;
    panel = of_panel;
    const int left = all_columns - k;
    group = header->group;
    group_bytes = int4_group_bytes(*header);
    side_bytes = int4_side_bytes(*header);
    codes = panel.begin + k / group * group_bytes;
    block_bytes = kInt8Group / group * group_bytes;
    distance = in_wholes(16 << 10, block_bytes);
    soon = header->sub_group > 0
               ? std::max<int64_t>(1, tuning.near_bytes / block_bytes) * block_bytes
               : in_wholes(8 << 10, group_bytes);
    columns = left < kInt8Group ? left : kInt8Group;
    is_first = k == 0;
    kind = kind_of(*header);
    zero = kind.has_short_sums ? kMiddle : zero_of(*header);
    if (kind.is_sub_block) {
      group = header->sub_group;
      group_bytes = bytes_of_codes(header->values, group);
    }
    groups = (columns + group - 1) / group;
  }
  // Widens what follows the codes of all groups.
  FORCE_INLINE void widen() {
    if (kind.is_sub_block) return widen_super_block();
    for (int i = 0; i < groups; ++i) {
      const uint8_t* const side =
          codes + i * group_bytes + bytes_of_codes(header->values, columns_of(i));
      prefetch_side(side);
      widen_group(i, side);
    }
  }
  // Widens what follows the codes of group i, from `side` on.
  FORCE_INLINE void widen_group(int i, const uint8_t* side) {
    const int64_t scale_bytes = kInt8Panel * size_of_scale(header->scales);
    widen_scales(header->scales, side, scales[i]);
    if (kind.has_minima) widen_scales(header->scales, side + scale_bytes, scales[kMinima + i]);
    if (!kind.has_zeros) return;
    for (int j = 0; j < kInt8Panel; j += 16) {
      store(zeros[i] + j, load_bytes(side + scale_bytes + j));
    }
  }
  const uint8_t* super_side() const { return codes + groups * group_bytes; }
  FORCE_INLINE void widen_super_block() {
    const uint8_t* side = super_side();
    for (int i = 0; i <= (kind.has_minima ? 1 : 0); ++i) {
      widen_scales(header->scales, side, scales[i]);
      side += kInt8Panel * size_of_scale(header->scales);
    }
    for (int i = 0; i < groups; ++i, side += kInt8Panel) {
      for (int j = 0; j < kInt8Panel; j += 16) {
        store(sub_scales[i] + j, load_signed_bytes(side + j));
      }
    }
    if (kind.has_short_sums) shorten_scales();
    if (!kind.has_minima) return;
    for (int i = 0; i < groups / 2; ++i, side += 2 * kInt8Panel) {
      for (int j = 0; j < kInt8Panel; j += 16) {
        store(minima[i] + j,
              load_bytes(side + j) + shift_left<16>(load_bytes(side + kInt8Panel + j)));
      }
    }
  }
  void shorten_scales() {
    const i32x16 word = broadcast(0xffff);
    for (int i = 0; i < groups; i += 2) {
      for (int j = 0; j < kInt8Panel; j += 16) {
        const i32x16 first = load(sub_scales[i] + j) & word;
        const i32x16 second = load(sub_scales[i + 1] + j) & word;
        store(sub_scales[i] + j, first);
        store(sub_scales[i + 1] + j, second);
        i32x16 pairs = first + shift_left<16>(second);
        for (NativeCodes& part : pairs.part) {
          part = (NativeCodes)((Words)part * (uint16_t)-kMiddle);
        }
        store(scale_pairs[i / 2] + j, pairs);
      }
    }
  }
  // Prefetches what lies so many bytes behind `count` bytes.
  template <_mm_hint kHint>
  FORCE_INLINE void prefetch(const uint8_t* from, int64_t count, int64_t bytes_ahead) const {
    const auto* const ahead = (const char*)panel.ahead_of(from, bytes_ahead);
    for (int64_t at = 0; at < count; at += 64) _mm_prefetch(ahead + at, kHint);
  }
  // Prefetches what follows the codes of a later block. Call it for a super-block after its codes
  // were prefetched: memory is then read in order.
  FORCE_INLINE void prefetch_side(const uint8_t* side) const {
    if (tuning.near_bytes == 0 || kind.is_sub_block) {
      prefetch<_MM_HINT_T1>(side, side_bytes, distance);
    } else {
      prefetch<_MM_HINT_T0>(side, side_bytes, block_bytes);
    }
  }
  void set_zeros(int number) {
    for (auto& of_group : zeros) {
      for (int32_t& of_output : of_group) of_output = number;
    }
  }
};

// That of output n.
inline CodePanel code_panel(const MatmulArgs& args, int n) {
  const auto* const panels = (const uint8_t*)args.weights + sizeof(Int4Header);
  return {panels + n / kInt8Panel * args.weight_stride,
          panels + int8_panels(args.last) * args.weight_stride, (const uint8_t*)args.after};
}

// For every panel and every group of the input's columns, calls
//   Tiles::multiply(input, place of the first row in it, rows, block, totals)
// which adds the block to the totals (rows, kInt8Panel) of up to kInt8RowBlock rows.
template <class Tiles>
void multiply_int4_panels(const MatmulArgs& args) {
  const auto& header = *(const Int4Header*)args.weights;
  const Int4Input input(args.packed, args.num_rows, args.k);
  const int columns = (int)int4_columns(args.k, header.group);
  alignas(64) float total[kInt8RowBlock * kInt8Panel];
  Int4Block block;
  block.tuning = args.tuning;
  for (int row = args.first_row; row < args.last_row; row += kInt8RowBlock) {
    const int left = args.last_row - row, rows = left < kInt8RowBlock ? left : kInt8RowBlock;
    for (int n = args.first; n < args.last; n += kInt8Panel) {
      const CodePanel panel = code_panel(args, n);
      memset(total, 0, rows * kInt8Panel * sizeof(float));
      for (int k = 0; k < args.k; k += kInt8Group) {
        block.move_to(header, panel, k, columns);
        Tiles::multiply(input, input.at(k / kInt8Group, row), rows, block, total);
      }
      const int outputs = args.last - n < kInt8Panel ? args.last - n : kInt8Panel;
      for (int m = 0; m < rows; ++m) {
        float* const y = args.y + (row + m) * args.y_stride + n;
        for (int i = 0; i < outputs; i += 16) {
          store_part(y + i, outputs - i, load(total + m * kInt8Panel + i));
        }
      }
    }
  }
}

}  // namespace
}  // namespace pagedinfer
