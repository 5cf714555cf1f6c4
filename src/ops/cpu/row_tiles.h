// Divides rows into tiles whose height the compiler knows, so that an inner loop holds the sums of
// a tile in registers.
#pragma once

#include "ops/cpu/vector.h"

namespace pagedinfer {
namespace {

constexpr int kTileRows = kNativeLanes == 16 ? 4 : kNativeLanes == 8 ? 2 : 1;  // of attention
constexpr int kBlockNumbers = 128 * 1024;  // of x, which a product keeps in the second-level cache

// Calls f<n>(first row) for tiles of n rows: n = kRows and, for the rest, half as many again and
// again.
template <int kRows = kTileRows, class F>
FORCE_INLINE void in_tiles(int rows, const F& f, int first = 0) {
  for (; first + kRows <= rows; first += kRows) f.template operator()<kRows>(first);
  if constexpr (kRows > 1) in_tiles<kRows / 2>(rows, f, first);
}

// Calls f<n>() with n = rows. REQUIRES: 1 <= rows <= kMax.
template <int kMax, class F>
FORCE_INLINE void with_rows(int rows, const F& f) {
  if constexpr (kMax > 1) {
    if (rows < kMax) return with_rows<kMax - 1>(rows, f);
  }
  f.template operator()<kMax>();
}
#define INLINE_LAMBDA __attribute__((always_inline))

// Calls f<0>(), f<1>(), ... f<kCount - 1>(). Indices that are constants from the beginning let g++
// keep an array of sums in registers also where it is used behind a loop.
template <int kCount, class F>
FORCE_INLINE void unrolled(const F& f) {
  const auto call = [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) INLINE_LAMBDA {
    (f.template operator()<kIndex>(), ...);
  };
  call(std::make_integer_sequence<int, kCount>());
}

// Calls f<n>(first row) for as few tiles of n <= kMax rows as possible, of nearly equal heights.
template <int kMax, class F>
FORCE_INLINE void in_equal_tiles(int rows, const F& f) {
  const int tiles = (rows + kMax - 1) / kMax;
  for (int i = 0; i < tiles; ++i) {
    const int first = rows * i / tiles, last = rows * (i + 1) / tiles;
    with_rows<kMax>(last - first, [&]<int kRows>() { f.template operator()<kRows>(first); });
  }
}

}  // namespace
}  // namespace pagedinfer
