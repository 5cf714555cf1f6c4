// Sums the values of a segment, each weighted with its p.
#pragma once

#include "ops/cpu/attention_keys.h"

namespace pagedinfer {
namespace {

// Rows that values are added to together. Values that are wide already leave AVX2 registers for
// more of them.
template <class T>
constexpr int kAddRows = kNativeLanes == 8 && sizeof(T) == 4 ? 6 : kTileRows;
// Vectors of a value that are added together.
template <int kRows>
constexpr int kValueVectors = kNativeLanes == 16                        ? 4
                              : kNativeLanes == 8 && kRows <= kTileRows ? 2
                                                                        : 1;

// out[r][d] = fma(p[r][key], value[key][d], out[r][d]) for keys ascending in a range, for
// 16 * kVectors dimensions d from `d`.
template <int kRows, int kVectors, class T, class F>
FORCE_INLINE void value_tile(const float* p, const T* const* value, Range keys, int d, int dim,
                             F& shared_fetcher, float* out) {
  F fetcher = shared_fetcher;
  f32x16 sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = load(out + r * dim + d + v * 16);
  }
  for (int key = keys.begin; key < keys.end; ++key) {
    fetcher.fetch((16 * kVectors * int(sizeof(T)) + 63) / 64);
    const T* from = value[key] + d;
    f32x16 right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = load_as_float(from + v * 16);
    for (int r = 0; r < kRows; ++r) {
      const f32x16 left = broadcast(p[r * kSegmentKeys + key]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(left, right[v], sum[r][v]);
    }
  }
  shared_fetcher = fetcher;
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(out + r * dim + d + v * 16, sum[r][v]);
  }
}

template <int kRows, int kVectors = kValueVectors<kRows>, class T, class F>
FORCE_INLINE void add_range(const float* p, const T* const* value, Range keys, int dim, F& fetcher,
                            float* out, int d = 0) {
  if (keys.begin >= keys.end) return;
  for (; d + 16 * kVectors <= dim; d += 16 * kVectors) {
    value_tile<kRows, kVectors>(p, value, keys, d, dim, fetcher, out);
  }
  if constexpr (kVectors > 1) add_range<kRows, kVectors / 2>(p, value, keys, dim, fetcher, out, d);
}

// Adds the visible ones of the keys in `here`, ascending. The rows of a tile share the keys that
// all of them see; the keys before and after these are added row by row.
template <class T>
FORCE_INLINE void add_visible(const float* p, const Range* visible, int num_rows, Range here,
                              const T* const* value, int dim, SpanPrefetcher* fetcher, float* out) {
  in_tiles<kAddRows<T>>(num_rows, [&]<int kRows>(int first) {
    const float* p_tile = p + first * kSegmentKeys;
    float* out_tile = out + first * dim;
    NoPrefetcher none;
    Range common = here;
    for (int r = 0; r < kRows; ++r) common = intersect(common, visible[first + r]);
    if (common.begin >= common.end) common = {here.end, here.end};
    const auto add_own = [&](Range keys) {
      for (int r = 0; r < kRows; ++r) {
        add_range<1>(p_tile + r * kSegmentKeys, value, intersect(keys, visible[first + r]), dim,
                     none, out_tile + r * dim);
      }
    };
    add_own({here.begin, common.begin});
    if (fetcher && first == 0) {
      add_range<kRows>(p_tile, value, common, dim, *fetcher, out_tile);
    } else {
      add_range<kRows>(p_tile, value, common, dim, none, out_tile);
    }
    add_own({common.end, here.end});
  });
}

// out += p * value for the located keys in `any`.
template <class T>
void add_values(const float* p, const Range* visible, int num_rows, Range any,
                const Located<T>& located, int dim, SpanPrefetcher& fetcher, float* panel,
                float* out) {
  for (int first = any.begin; first < any.end; first += kValueKeys) {
    const Range here = {first, first + kValueKeys < any.end ? first + kValueKeys : any.end};
    if (sizeof(T) == 4 || num_rows <= kDirectRows) {
      add_visible(p, visible, num_rows, here, located.value, dim, &fetcher, out);
      continue;
    }
    const float* wide[kValueKeys];
    for (int key = here.begin; key < here.end; ++key) {
      float* to = panel + (key - first) * dim;
      fetcher.fetch((dim * int(sizeof(T)) + 63) / 64);
      for (int d = 0; d < dim; d += 16) store(to + d, load_as_float(located.value[key] + d));
      wide[key - first] = to;
    }
    add_visible(p, visible, num_rows, here, wide - first, dim, nullptr, out);
  }
}

}  // namespace
}  // namespace pagedinfer
