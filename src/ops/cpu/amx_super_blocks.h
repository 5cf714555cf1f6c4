// Super-blocks of weights, as products on AMX tiles take them. A weight is an integer,
//   sub-scale * (number - zero point) = 256 * high + low,
// of at most 128 * 128 in magnitude. So high is from -64 to 64, low is from -128 to 127, and both
// are bytes with a sign. Tiles multiply each with the input over all 256 columns:
//   sum = 256 * (sum of high * input) + (sum of low * input)
// is the exact sum, at most 2^29 in magnitude (docs/numerics.md).
#pragma once

#include "ops/cpu/amx_int4_groups.h"
#include "ops/cpu/row_tiles.h"

namespace pagedinfer {
namespace {

// Where the sums of the high bytes go, and then those of the low ones: 32 rows and 32 outputs.
struct SuperBlockTarget {
  const Int4Block* block;
  int output;  // the first one
  bool is_high;
  const float* row_scales;
  const int16_t* input_sums;  // of Int4Input, of the sub-blocks and row 0; read with minima only
  int32_t* sums_of_high;
  float* totals;  // (32, 32)

  template <int count>
  void add(const int32_t* sums, int first) const {
    if (is_high) {
      for (int m = first; m < first + count; ++m) {
        for (int half = 0; half < 2; ++half) {
          store(sums_of_high + place(m, half), shift_left<8>(sums_of_row(sums, m, half)));
        }
      }
    } else if (!block->kind.has_minima) {
      add_low<count, 0>(sums, first);
    } else {
      block->groups == kMaxCodeGroups ? add_low<count, kMaxCodeGroups / 2>(sums, first)
                                      : add_low<count, kMaxCodeGroups / 4>(sums, first);
    }
  }

 private:
  static int place(int m, int half) { return m * kInt8Block + half * 16; }

  template <int count, int kPairs>
  __attribute__((noinline)) void add_low(const int32_t* sums, int first) const {
    const SuperBlockTarget t = *this;  // which the compiler knows that no store changes
    const bool begins = t.block->is_first;
    const f32x16 zero = broadcast(0.0f);
    for (int half = 0; half < 2; ++half) {
      const int of_half = t.output + half * 16;
      const f32x16 scale = load(t.block->scales[0] + of_half);
      const f32x16 scale_of_minima = load(t.block->scales[1] + of_half);
      i32x16 minima[kPairs > 0 ? kPairs : 1];
#pragma GCC unroll 8
      for (int i = 0; i < kPairs; ++i) minima[i] = load(t.block->minima[i] + of_half);
      for (int m = first; m < first + count; ++m) {
        const int at = place(m, half);
        const i32x16 sum = load(t.sums_of_high + at) + sums_of_row(sums, m, half);
        f32x16 part = fma(to_float(sum), scale, zero);
        if constexpr (kPairs > 0) {
          i32x16 of_minima = broadcast(0);
#pragma GCC unroll 8
          for (int i = 0; i < kPairs; ++i) {
            const NativeCodes pair = repeat_pair(t.input_sums + m * kNumSums + 2 * i);
            for (int p = 0; p < kParts; ++p) {
              of_minima.part[p] += multiply_words(minima[i].part[p], pair);
            }
          }
          part = fma(to_float(of_minima), scale_of_minima, part);
        }
        float* const to = t.totals + at;
        store(to, fma(part, broadcast(t.row_scales[m]), begins ? zero : load(to)));
      }
    }
  }
};

// The bytes of weights, in panels as TileGroups has them.
template <CodeValues kValues>
void unpack_weights(const Int4Block& block, int first_output, int end_output, uint8_t* high,
                    uint8_t* low) {
  const auto in_words = [](NativeCodes a) INLINE_LAMBDA { return (Words)((a & 0xffff) | a << 16); };
  for (int g = 0; g < block.groups; ++g) {
    const uint8_t* const codes = block.codes + g * block.group_bytes;
    block.prefetch<_MM_HINT_T1>(codes, block.group_bytes, block.distance);
    if (g + 1 == block.groups) block.prefetch_side(block.super_side());
    for (int output = first_output; output < end_output; output += kNativeLanes) {
      const NativeCodes sub_scale = load_codes((const uint8_t*)(block.sub_scales[g] + output));
      const NativeCodes zero = load_codes((const uint8_t*)(block.zeros[g] + output));
      // Words begin at half of a low byte, which rounds the high one.
      const Words scale = in_words(sub_scale), begin = in_words(0x80 - zero * sub_scale);
      for (int c = 0; c < block.group; c += kInt4Eight) {
        const uint8_t* const eight = codes + c / kInt4Eight * bytes_of_eight(kValues);
        const int64_t to = (g * block.group + c) * kInt8Panel + output * kFour;
        unrolled<2>([&]<int half>() INLINE_LAMBDA {
          const auto numbers = (Words)numbers_at<kValues, half>(eight, output * kFour);
          const Words even = (numbers & 0xff) * scale + begin, odd = (numbers >> 8) * scale + begin;
          *(i32x16::InMemory*)(high + to + half * kFourBytes) =
              (NativeCodes)(even >> 8 | (odd & 0xff00));
          *(i32x16::InMemory*)(low + to + half * kFourBytes) =
              (NativeCodes)(((even & 0xff) | odd << 8) ^ 0x8080);
        });
      }
    }
  }
}

// The weights of a block of 256 columns.
class TileSuperBlocks {
 public:
  using Target = SuperBlockTarget;

  static bool can_unpack(CodeValues values) {
    return values != CodeValues::kFp4 && values != CodeValues::kBytes;
  }
  // Unpacks outputs [first, end) of a block. REQUIRES: can_unpack().
  void unpack(const Int4Block& block, int first, int end) {
    using enum CodeValues;
    switch (block.header->values) {
      case kTable: return unpack_weights<kTable>(block, first, end, bytes_[0], bytes_[1]);
      case kUniform5: return unpack_weights<kUniform5>(block, first, end, bytes_[0], bytes_[1]);
      case kUniform6: return unpack_weights<kUniform6>(block, first, end, bytes_[0], bytes_[1]);
      default: return unpack_weights<kUniform>(block, first, end, bytes_[0], bytes_[1]);
    }
  }

  // As TileGroups.
  template <class Pipeline>
  FORCE_INLINE void multiply(const Int4Block& block, int half, const TileRows& rows,
                             Pipeline& pipeline) {
    NoPrefetcher no_prefetcher;
    for (int i = 0; i < 2; ++i) {
      pipeline.multiply({.x = rows.numbers,
                         .second = rows.second,
                         .weights = bytes_[i] + half * kInt8Block * kFour,
                         .steps = kInt8Group / kInt8Step},
                        {.block = &block,
                         .output = half * kInt8Block,
                         .is_high = i == 0,
                         .row_scales = rows.scales,
                         .input_sums = rows.sums + sums_at(block.group),
                         .sums_of_high = sums_of_high_,
                         .totals = rows.totals},
                        no_prefetcher, 0);
    }
  }

 private:
  alignas(64) uint8_t bytes_[2][kInt8Group * kInt8Panel];  // high, low
  alignas(64) int32_t sums_of_high_[kInt8BlockSums];       // times 256
};

}  // namespace
}  // namespace pagedinfer
