// Weights whose groups have a scale, as products on AMX tiles take them: the codes of 256 columns
// become numbers with a sign, less their zero points.
#pragma once

#include "ops/cpu/amx_int8_kernel.h"
#include "ops/cpu/int4_panels.h"

namespace pagedinfer {
namespace {

// Up to 32 rows of the input in a group of its columns, and where their totals are.
struct TileRows {
  const int8_t* numbers;
  int64_t second;       // of Int8Pipeline::Operands
  const int16_t* sums;  // of Int4Input
  const float* scales;
  float* totals;  // (32, 32)
};

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
        const f32x16 part = fma(to_float(sums_of_row(sums, m, half)), scales[half],
                                kFirst ? zero : load(parts + at));
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

// The numbers of a block of 256 columns.
class TileGroups {
 public:
  using Target = Int4Target;

  // Unpacks outputs [first, end) of a block.
  void unpack(const Int4Block& block, int first, int end) {
    block.header->values == CodeValues::kUniform
        ? unpack_signed<CodeValues::kUniform>(block, first, end, bytes_)
        : unpack_signed<CodeValues::kFp4>(block, first, end, bytes_);
  }

  // Multiplies 32 unpacked outputs, a half of the panel, with rows.
  template <class Pipeline>
  FORCE_INLINE void multiply(const Int4Block& block, int half, const TileRows& rows,
                             Pipeline& pipeline) {
    NoPrefetcher no_prefetcher;
    for (int g = 0; g < block.groups; ++g) {
      pipeline.multiply(
          {.x = rows.numbers + g * block.group,
           .second = rows.second,
           .weights = bytes_ + g * block.group * kInt8Panel + half * kInt8Block * kFour,
           .steps = block.columns_of(g) / kInt8Step},
          {.weight_scales = block.scales[g] + half * kInt8Block,
           .row_scales = rows.scales,
           .parts = parts_,
           .totals = rows.totals,
           .is_first = g == 0,
           .is_last = g + 1 == block.groups,
           .begins = block.is_first},
          no_prefetcher, 0);
    }
  }

 private:
  alignas(64) uint8_t bytes_[kInt8Group * kInt8Panel];
  alignas(64) float parts_[kInt8BlockSums];
};

}  // namespace
}  // namespace pagedinfer
