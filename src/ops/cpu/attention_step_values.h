// Sums the values of a segment in the order of tiles.
#pragma once

#include "ops/cpu/attention_values.h"

namespace pagedinfer {
namespace {

// Values in bfloat16 are widened, and their sums kept, in this order: of two registers' numbers
// first the even ones, then the odd ones. So widening two registers takes two instructions.
template <int kVectors>
FORCE_INLINE void load_apart(const bf16* from, Native* to) {
  constexpr int kNatives = kVectors * kParts;
  if constexpr (kNatives == 1) {
    to[0] = load_as_float(from).part[0];
  } else {
    for (int n = 0; n < kNatives; ++n) {
      to[n] = load_of_pairs(from + n / 2 * 2 * kNativeLanes, n % 2 != 0);
    }
  }
}
template <int kVectors>
FORCE_INLINE void load_apart(const float* from, Native* to) {
  for (int n = 0; n < kVectors * kParts; ++n) to[n] = load_native(from + n * kNativeLanes);
}
// Puts a row in its order.
FORCE_INLINE void interleave_sums(float* row, int dim) {
  for (int d = 0; d + 2 * kNativeLanes <= dim; d += 2 * kNativeLanes) {
    float apart[2 * kNativeLanes];
    memcpy(apart, row + d, sizeof(apart));
    for (int i = 0; i < kNativeLanes; ++i) {
      row[d + 2 * i] = apart[i];
      row[d + 2 * i + 1] = apart[kNativeLanes + i];
    }
  }
}

// Rows that values are added to together, and vectors of a value.
template <class T>
constexpr int kStepRows = kNativeLanes == 16 ? 8 : kAddRows<T>;
template <int kRows>
constexpr int kStepVectors = kNativeLanes == 16 ? (kRows > 2 ? 16 / kRows : 8)
                                                : kValueVectors<kRows>;

// Adds the keys `here` of one step to so many dimensions from d on. REQUIRES: one row, or all keys
// of the step.
template <int kRows, int kVectors, class T, class F>
TILE_FUNCTION void value_step(const float* p, const T* const* value, Range here, int d, int dim,
                              F& shared_fetcher, float* out) {
  constexpr int kNatives = kVectors * kParts;
  F fetcher = shared_fetcher;
  const int step = here.begin & -kStepColumns;
  const T* const* const from = value + step;
  const auto load_values = [&](int64_t at, int i, Native* to)
                               INLINE_LAMBDA { load_apart<kVectors>(from[at + i] + d, to); };
  const auto total = [&](int r, int n)
                         INLINE_LAMBDA { return out + r * dim + d + n * kNativeLanes; };
  if (here.end - here.begin == kStepColumns) {
    constexpr int kLines = (16 * kVectors * int(sizeof(T)) + 63) / 64;  // of a column
    add_step<kRows, kNatives, std::is_same_v<F, NoPrefetcher> ? kStepColumns : kStepColumns / 2>(
        p + step, kSegmentKeys, kStepColumns, load_values,
        [&](int columns) INLINE_LAMBDA { fetcher.fetch(columns * kLines); }, total, total);
  } else if constexpr (kRows == 1) {
    add_part_of_step<kNatives>(p + step, here.begin - step, here.end - step, load_values, total);
  }
  shared_fetcher = fetcher;
}
template <int kRows, int kVectors = kStepVectors<kRows>, class T, class F>
FORCE_INLINE void value_steps(const float* p, const T* const* value, Range here, int dim,
                              F& fetcher, float* out, int d = 0) {
  for (; d + 16 * kVectors <= dim; d += 16 * kVectors) {
    value_step<kRows, kVectors>(p, value, here, d, dim, fetcher, out);
  }
  if constexpr (kVectors > 1) {
    value_steps<kRows, kVectors / 2>(p, value, here, dim, fetcher, out, d);
  }
}

// Adds the visible ones of the keys `here` of one step. Rows that see all of it share its values.
template <class T>
FORCE_INLINE void add_visible_step(const float* p, const Range* visible, int num_rows, Range here,
                                   const T* const* value, int dim, SpanPrefetcher* fetcher,
                                   float* out) {
  in_tiles<kStepRows<T>>(num_rows, [&]<int kRows>(int first) {
    Range own[kRows];
    bool is_whole = true;
    for (int r = 0; r < kRows; ++r) {
      own[r] = intersect(here, visible[first + r]);
      is_whole = is_whole && own[r].end - own[r].begin == kStepColumns;
    }
    NoPrefetcher none;
    const float* const p_tile = p + first * kSegmentKeys;
    float* const out_tile = out + first * dim;
    if (!is_whole) {
      for (int r = 0; r < kRows; ++r) {
        if (own[r].begin >= own[r].end) continue;
        value_steps<1>(p_tile + r * kSegmentKeys, value, own[r], dim, none, out_tile + r * dim);
      }
    } else if (fetcher && first == 0) {
      value_steps<kRows>(p_tile, value, own[0], dim, *fetcher, out_tile);
    } else {
      value_steps<kRows>(p_tile, value, own[0], dim, none, out_tile);
    }
  });
}

// out += p * value for the located keys in `any`, in steps.
template <class T>
void add_values_in_steps(const float* p, const Range* visible, int num_rows, Range any,
                         const Located<T>& located, int dim, SpanPrefetcher& fetcher, float* panel,
                         float* out) {
  for (int step = any.begin & -kStepColumns; step < any.end; step += kStepColumns) {
    const Range here = intersect(any, {step, step + kStepColumns});
    if (num_rows <= kDirectRows) {
      add_visible_step(p, visible, num_rows, here, located.value, dim, &fetcher, out);
      continue;
    }
    const float* wide[kStepColumns];
    for (int key = here.begin; key < here.end; ++key) {
      float* to = panel + (key - step) * dim;
      fetcher.fetch((dim * int(sizeof(T)) + 63) / 64);
      for (int d = 0; d < dim; d += 16) store(to + d, load_as_float(located.value[key] + d));
      wide[key - step] = to;
    }
    add_visible_step(p, visible, num_rows, here, wide - step, dim, nullptr, out);
  }
  if (num_rows > kDirectRows) return;
  for (int r = 0; r < num_rows; ++r) interleave_sums(out + r * dim, dim);
}

}  // namespace
}  // namespace pagedinfer
