// The inner loops of float32 products; both keep rows x vectors of sums in registers. dot: the
// lanes are sixteen interleaved parts of one sum, folded by the tree at the end; it suits long
// sums. chain: the lanes are sixteen sums, each a single chain; it suits short sums and many rows.
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

// sums[r * kOutputs + n] = the sixteen parts of a[r] . b[n], of `depth` elements: lane = index mod
// 16, fma from +0, the last vector padded with +0 in both factors.
template <int kRows, int kOutputs, class T>
FORCE_INLINE void dot_tile(const float* a, const T* b, int depth, f32x16* sums) {
  f32x16 sum[kRows][kOutputs];
  for (int r = 0; r < kRows; ++r) {
    for (int n = 0; n < kOutputs; ++n) sum[r][n] = broadcast(0.0f);
  }
  const auto step = [&](int i, const auto& load_16) {
    f32x16 left[kRows];
    for (int r = 0; r < kRows; ++r) left[r] = load_16(a + int64_t(r) * depth + i);
    for (int n = 0; n < kOutputs; ++n) {
      const f32x16 right = load_16(b + int64_t(n) * depth + i);
      for (int r = 0; r < kRows; ++r) sum[r][n] = fma(left[r], right, sum[r][n]);
    }
  };
  int i = 0;
  for (; i + 16 <= depth; i += 16) step(i, [](const auto* from) { return load_as_float(from); });
  if (i < depth) step(i, [&](const auto* from) { return load_as_float(from, depth - i); });
  for (int r = 0; r < kRows; ++r) {
    for (int n = 0; n < kOutputs; ++n) sums[r * kOutputs + n] = sum[r][n];
  }
}

// c[r][j] = fma(a[r][i], b[i][j], c[r][j]) for i ascending in [begin, end), for 16 * kVectors
// columns j from `column`.
template <int kRows, int kVectors, class Right>
FORCE_INLINE void chain_tile(const float* a, int lda, const Right& b, int column, int begin,
                             int end, float* c, int ldc) {
  f32x16 sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = load(c + r * ldc + column + v * 16);
  }
#pragma GCC unroll 4
  for (int i = begin; i < end; ++i) {
    f32x16 right[kVectors];
    b.fetch(i);
    for (int v = 0; v < kVectors; ++v) right[v] = b.vector(i, column + v * 16);
    for (int r = 0; r < kRows; ++r) {
      const f32x16 left = broadcast(a[r * lda + i]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(left, right[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(c + r * ldc + column + v * 16, sum[r][v]);
  }
}
template <int kRows, int kVectors, class Right>
FORCE_INLINE void chain_columns(const float* a, int lda, const Right& b, int column, int begin,
                                int end, float* c, int ldc, int columns) {
  for (; column + 16 * kVectors <= columns; column += 16 * kVectors) {
    chain_tile<kRows, kVectors>(a, lda, b, column, begin, end, c, ldc);
  }
  if constexpr (kVectors > 1) {
    chain_columns<kRows, kVectors / 2>(a, lda, b, column, begin, end, c, ldc, columns);
  }
}
// All `columns` (a multiple of 16) of c.
template <int kRows, class Right>
void chain(const float* a, int lda, const Right& b, int begin, int end, float* c, int ldc,
           int columns) {
  chain_columns<kRows, Right::kVectors>(a, lda, b, 0, begin, end, c, ldc, columns);
}

}  // namespace
}  // namespace pagedinfer
