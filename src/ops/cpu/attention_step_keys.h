// Scores of keys in the order of tiles.
#pragma once

#include "ops/cpu/attention_pieces.h"
#include "ops/cpu/attention_steps.h"

namespace pagedinfer {
namespace {

// With 32 registers, g++ keeps all sums in them only in a function of its own.
#if defined(__AVX512F__)
#define TILE_FUNCTION __attribute__((noinline))
#else
#define TILE_FUNCTION FORCE_INLINE
#endif

// The scores of kRows rows and kNumPieces pieces, in steps of dimensions. Totals stay in a small
// array until the last step: the rows of `scores` lie a multiple of 1 KiB apart.
template <int kRows, int kNumPieces, class T, class F>
TILE_FUNCTION void score_tile_in_steps(const float* q, int dim, const Piece<T>* piece,
                                       F& shared_fetcher, float* scores) {
  constexpr int kNatives = kNumPieces * kParts;
  F fetcher = shared_fetcher;
  constexpr int kWidth = kNumPieces * 16;
  alignas(64) float totals[(kRows + 1) * kWidth];
  for (int i = 0; i < kWidth; ++i) totals[kRows * kWidth + i] = 0;
  const T* keys[kNumPieces];
  for (int p = 0; p < kNumPieces; ++p) keys[p] = piece[p].group;
  for (int step = 0; step < dim; step += kStepColumns) {
    const auto load_keys = [&](int64_t at, int i, Native* to) INLINE_LAMBDA {
      for (int p = 0; p < kNumPieces; ++p) {
        for (int n = 0; n < kParts; ++n) {
          const T* const from = keys[p] + at * kGroupPositions;
          Native& number = to[p * kParts + n];
          if constexpr (std::is_same_v<T, bf16>) {
            const T* const pairs = from + i / 2 * 2 * kGroupPositions + n * 2 * kNativeLanes;
            number = load_of_pairs(pairs, i % 2 != 0);
          } else {
            number = load_native(from + i * kGroupPositions + n * kNativeLanes);
          }
        }
      }
    };
    const int left = dim - step;
    const float* const before = step == 0 ? totals + kRows * kWidth : totals;
    const int64_t stride_before = step == 0 ? 0 : kWidth;
    const bool is_last = left <= kStepColumns;
    float* after[kNumPieces];
    int64_t stride_after[kNumPieces];
    for (int p = 0; p < kNumPieces; ++p) {
      const bool in_place = is_last && piece[p].count == kGroupPositions;
      after[p] = in_place ? scores + piece[p].key : totals + p * 16;
      stride_after[p] = in_place ? kSegmentKeys : kWidth;
    }
    const auto add = [&]<int kSome>() INLINE_LAMBDA {
      add_step<kRows, kNatives, kSome>(
          q + step, dim, left < kStepColumns ? left : kStepColumns, load_keys,
          [&](int i) INLINE_LAMBDA { fetcher.fetch(kNumPieces * i * int(sizeof(T)) / 4); },
          [&](int r, int n) INLINE_LAMBDA { return before + r * stride_before + n * kNativeLanes; },
          [&](int r, int n) INLINE_LAMBDA {
            return after[n / kParts] + r * stride_after[n / kParts] + n % kParts * kNativeLanes;
          });
    };
    if (std::is_same_v<F, NoPrefetcher> && left >= kStepColumns) {
      add.template operator()<kStepColumns>();
    } else {
      add.template operator()<8>();
    }
    for (int p = 0; p < kNumPieces; ++p) keys[p] += kStepColumns * kGroupPositions;
  }
  shared_fetcher = fetcher;
  for (int p = 0; p < kNumPieces; ++p) {
    if (piece[p].count == kGroupPositions) continue;
    for (int r = 0; r < kRows; ++r) {
      memcpy(scores + r * kSegmentKeys + piece[p].key, totals + p * 16 + r * kWidth + piece[p].lane,
             piece[p].count * sizeof(float));
    }
  }
}

}  // namespace
}  // namespace pagedinfer
