// Products of a few rows in the order of tiles, which is tdpbf16ps's: columns in steps of
// kStepColumns; in a step one fma chain from +0 over the even columns, ascending, and one over the
// odd ones; total += even + odd.
#pragma once

#include <type_traits>

#include "ops/cpu/row_tiles.h"

namespace pagedinfer {
namespace {

constexpr int kStepColumns = 32;

template <class T>
constexpr bool kInSteps = std::is_same_v<T, bf16>;  // attention over a cache of T has this order

// Rows and registers of a tile whose even and odd chains fill the registers together. A larger one
// computes them one after the other.
template <int kRows, int kNatives>
constexpr bool kBothChains = kRows* kNatives <= (kNativeLanes == 16 ? 8 : 4);

// A step of `columns`, a multiple of kSome, which are taken kSome at a time:
//   after(r, n) = before(r, n) + ((sum of left[r * stride + i] * right(i)[n] for even i) + (odd i))
// for kRows rows and kNatives registers. right(at, i, to) loads the numbers of column at + i, where
// i < kSome; before and after are the places of a total; fetch(n) prefetches what n columns ahead
// need.
template <int kRows, int kNatives, int kSome, class Right, class Fetch, class Before, class After>
FORCE_INLINE void add_step(const float* first_row, int64_t stride, int columns, const Right& right,
                           const Fetch& fetch, const Before& before, const After& after) {
  if (kSome == kStepColumns) columns = kStepColumns;
  const float* left[kRows];
  for (int r = 0; r < kRows; ++r) left[r] = first_row + r * stride;
  if constexpr (kBothChains<kRows, kNatives>) {
    Native sum[2][kRows][kNatives];
    for (int c = 0; c < 2; ++c) {
      for (int r = 0; r < kRows; ++r) {
        for (int n = 0; n < kNatives; ++n) sum[c][r][n] = Native{};
      }
    }
#pragma GCC unroll 1
    for (int64_t at = 0; at < columns; at += kSome) {
      fetch(kSome);
#pragma GCC unroll 32
      for (int i = 0; i < kSome; ++i) {
        Native numbers[kNatives];
        right(at, i, numbers);
        for (int r = 0; r < kRows; ++r) {
          const Native factor = left[r][at + i] - Native{};
          for (int n = 0; n < kNatives; ++n) {
            sum[i % 2][r][n] = fma_native(factor, numbers[n], sum[i % 2][r][n]);
          }
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int n = 0; n < kNatives; ++n) {
        store_native(after(r, n), load_native(before(r, n)) + (sum[0][r][n] + sum[1][r][n]));
      }
    }
  } else {
    alignas(64) float even[kRows][kNatives][kNativeLanes];
    const auto chain = [&]<int odd>() INLINE_LAMBDA {
      Native sum[kRows][kNatives];
      for (int r = 0; r < kRows; ++r) {
        for (int n = 0; n < kNatives; ++n) sum[r][n] = Native{};
      }
#pragma GCC unroll 1
      for (int64_t at = 0; at < columns; at += kSome) {
        fetch(kSome / 2);
#pragma GCC unroll 16
        for (int i = odd; i < kSome; i += 2) {
          Native numbers[kNatives];
          right(at, i, numbers);
          for (int r = 0; r < kRows; ++r) {
            const Native factor = left[r][at + i] - Native{};
            for (int n = 0; n < kNatives; ++n) {
              sum[r][n] = fma_native(factor, numbers[n], sum[r][n]);
            }
          }
        }
      }
      for (int r = 0; r < kRows; ++r) {
        for (int n = 0; n < kNatives; ++n) {
          if constexpr (odd) {
            const Native both = load_native(even[r][n]) + sum[r][n];
            store_native(after(r, n), load_native(before(r, n)) + both);
          } else {
            store_native(even[r][n], sum[r][n]);
          }
        }
      }
    };
    chain.template operator()<0>();
    chain.template operator()<1>();
  }
}

// The same of columns [begin, end) of a step and one row.
template <int kNatives, class Right, class Total>
FORCE_INLINE void add_part_of_step(const float* left, int begin, int end, const Right& right,
                                   const Total& total) {
  Native sum[2][kNatives];
  for (int n = 0; n < kNatives; ++n) sum[0][n] = sum[1][n] = Native{};
  const auto add_column = [&](int i, int odd) INLINE_LAMBDA {
    Native numbers[kNatives];
    right(i, 0, numbers);
    const Native factor = left[i] - Native{};
    for (int n = 0; n < kNatives; ++n) sum[odd][n] = fma_native(factor, numbers[n], sum[odd][n]);
  };
  int i = begin;
  if (i % 2 != 0) add_column(i++, 1);
  for (; i + 2 <= end; i += 2) add_column(i, 0), add_column(i + 1, 1);
  if (i < end) add_column(i, 0);
  for (int n = 0; n < kNatives; ++n) {
    float* const to = total(0, n);
    store_native(to, load_native(to) + (sum[0][n] + sum[1][n]));
  }
}

}  // namespace
}  // namespace pagedinfer
