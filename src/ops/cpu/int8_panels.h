// The common parts of products in int8: the packing of the input, and the order in which panels of
// weights and rows of the input are used.
#pragma once

#include "ops/cpu/int8_layout.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/vector.h"

namespace pagedinfer {
namespace {

constexpr int kInt8RowBlock = 256;  // rows of the input that use a panel while it is in the cache

// The sums of the first and of the last eight of sixteen numbers. The instruction sums bytes
// without a sign: each is 128 too large.
constexpr int kSixteenZeros = 16 * 128;
FORCE_INLINE __m128i sums_of_eights(const int8_t* sixteen) {
  const __m128i bytes = _mm_loadu_si128((const __m128i*)sixteen) ^ _mm_set1_epi8(-128);
  return _mm_sad_epu8(bytes, _mm_setzero_si128());
}
inline int32_t sum_of_group(const int8_t* numbers) {
  __m128i sums = _mm_setzero_si128();
  for (int i = 0; i < kInt8Group; i += 16) sums = _mm_add_epi64(sums, sums_of_eights(numbers + i));
  const __m128i sum = _mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums));
  return _mm_cvtsi128_si32(sum) - kInt8Group / 16 * kSixteenZeros;
}

// Packs rows of the input. `to_int8` is that of Kernels.
template <class Number>
void pack_int8(const PackArgs& args, float (*to_int8)(const float*, int8_t*, int64_t)) {
  const Int8Input<Number> to(args.packed, args.num_rows, args.k);
  for (int m = args.first_row; m < args.last_row; ++m) {
    const float* x = args.x + (m - args.first_row) * args.stride;
    for (int k = args.first_column; k < args.last_column; k += kInt8Group, x += kInt8Group) {
      const int columns = args.k - k < kInt8Group ? args.k - k : kInt8Group;
      const int64_t at = to.at(k / kInt8Group, m);
      Number* const row = to.numbers + at * kInt8Group;
      alignas(64) int8_t narrow[kInt8Group];
      int8_t* numbers = narrow;
      if constexpr (sizeof(Number) == 1) numbers = row;
      if (columns < kInt8Group) memset(numbers, 0, kInt8Group);
      to.scales[at] = to_int8(x, numbers, columns);
      to.shifts[at] = kInt8Zero * sum_of_group(numbers);
      if constexpr (sizeof(Number) > 1) {
        for (int i = 0; i < kInt8Group; ++i) row[i] = numbers[i];
      }
    }
  }
}

template <class Input>
void gather_rows(const GatherArgs& args) {
  const Input from(args.packed, args.num_rows, args.k);
  const Input to(args.gathered, args.num_gathered, args.k);
  for (int i = args.first; i < args.last; ++i) {
    const int row = static_cast<int>(args.numbers[i] / args.divisor);
    for (int g = 0; g < Input::num_groups(args.k); ++g) to.copy(to.at(g, i), from, from.at(g, row));
  }
}

// A group of the columns of a panel, and what is to be prefetched while it is multiplied.
struct PanelGroup {
  const uint8_t* weights;
  int fours;      // of columns
  bool is_first;  // the totals begin at +0
  const char* prefetched;
  int lines;  // that are prefetched for every four columns, at most 4
};

// y = total * scale, of one row and the outputs of a panel.
FORCE_INLINE void store_outputs(const float* total, const float* scales, int outputs, float* y) {
  for (int i = 0; i < outputs; i += 16) {
    store_part(y + i, outputs - i, load(total + i) * load(scales + i));
  }
}

// For every panel and every group of its columns, calls
//   Tiles::multiply(input, place of the first row in it, rows, group, totals (rows, kInt8Panel))
// which adds the group to the totals of up to kInt8RowBlock rows. So a group, 16 KiB, stays in the
// first-level cache for all rows, and few rows are bound by reading the weights in one run.
template <class Tiles>
void multiply_panels(const MatmulArgs& args) {
  const Int8Input<typename Tiles::Number> input(args.packed, args.num_rows, args.k);
  alignas(64) float total[kInt8RowBlock * kInt8Panel];
  for (int row = args.first_row; row < args.last_row; row += kInt8RowBlock) {
    const int left = args.last_row - row, rows = left < kInt8RowBlock ? left : kInt8RowBlock;
    for (int n = args.first; n < args.last; n += kInt8Panel) {
      const uint8_t* const panel =
          (const uint8_t*)args.weights + n / kInt8Panel * args.weight_stride;
      for (int group = 0, k = 0; k < args.k; ++group, k += kInt8Group) {
        const int columns = args.k - k < kInt8Group ? args.k - k : kInt8Group;
        const uint8_t* const weights = panel + int64_t(k) * kInt8Panel;
        const bool is_last = k + kInt8Group >= args.k && n + kInt8Panel >= args.last;
        const void* const next =
            is_last && args.after != nullptr ? args.after : weights + kInt8Group * kInt8Panel;
        Tiles::multiply(input, input.at(group, row), rows,
                        {.weights = weights,
                         .fours = (columns + kFour - 1) / kFour,
                         .is_first = group == 0,
                         .prefetched = (const char*)next,
                         .lines = 0},
                        total);
      }
      const auto* const scales = (const float*)(panel + int8_scales_at(args.k));
      const int outputs = args.last - n < kInt8Panel ? args.last - n : kInt8Panel;
      for (int m = 0; m < rows; ++m) {
        store_outputs(total + m * kInt8Panel, scales, outputs,
                      args.y + (row + m) * args.y_stride + n);
      }
    }
  }
}

// Calls f(i) for each i < count; together these calls multiply one group. Sets group.lines and
// group.prefetched so that they also prefetch the next group.
template <class F>
FORCE_INLINE void share_prefetches(PanelGroup group, int count, const F& f) {
  constexpr int kLines = kFourBytes / 64;  // for every four columns
  const int lines = count == 1 ? kLines : count < kLines ? kLines / 2 : 1;
  for (int i = 0; i < count; ++i) {
    group.lines = i * lines < kLines ? lines : 0;
    f(i, group);
    group.prefetched += group.lines * group.fours * 64;
  }
}

}  // namespace
}  // namespace pagedinfer
