// How many rows an inner loop takes together: as many as leave room for their sums in registers.
#pragma once

#include "ops/cpu/vector.h"

namespace pagedinfer {
namespace {

constexpr int kTileRows = kNativeLanes == 16 ? 4 : kNativeLanes == 8 ? 2 : 1;

// Calls f<n>(first row) for groups of n rows: n = kTileRows and, for the rest, powers of two.
template <int kRows = kTileRows, class F>
FORCE_INLINE void in_tiles(int rows, const F& f, int first = 0) {
  for (; first + kRows <= rows; first += kRows) f.template operator()<kRows>(first);
  if constexpr (kRows > 1) in_tiles<kRows / 2>(rows, f, first);
}

}  // namespace
}  // namespace pagedinfer
