// Rows shared out among tiles whose height is known to the compiler.
#pragma once

#include "ops/cpu/vector.h"

namespace pagedinfer {
namespace {

// One register. The sums of an inner loop are held as these: g++ keeps an array of vectors of
// several parts in memory.
using Native = f32x16::Native;
FORCE_INLINE Native load_native(const float* from) { return *(const f32x16::InMemory*)from; }
FORCE_INLINE void store_native(float* to, Native a) { *(f32x16::InMemory*)to = a; }

constexpr int kBlockNumbers = 128 * 1024;  // of x that are worked on for all outputs

// Calls f<n>() with n = rows.
template <int kMax, class F>
FORCE_INLINE void with_rows(int rows, const F& f) {
  if constexpr (kMax > 1) {
    if (rows < kMax) return with_rows<kMax - 1>(rows, f);
  }
  f.template operator()<kMax>();
}
// Calls f<n>(first row) for groups of n <= kMax rows, as few and as equal as can be.
template <int kMax, class F>
FORCE_INLINE void in_groups(int rows, const F& f) {
  const int groups = (rows + kMax - 1) / kMax;
  for (int i = 0; i < groups; ++i) {
    const int first = rows * i / groups, last = rows * (i + 1) / groups;
    with_rows<kMax>(last - first, [&]<int kRows>() { f.template operator()<kRows>(first); });
  }
}

// Parts of rows that are needed later, in the order they lie, asked of the memory a few lines at a
// time while something else is computed: only some dozens can be on their way. Into the second
// level: rows at a stride of 4 KiB evict each other from the first.
struct Ahead {
  const char* row;
  int64_t stride, run;  // bytes: between rows, and of each that are wanted
  int64_t at = 0;
  FORCE_INLINE void lines(int count) {
    for (int i = 0; i < count; ++i) _mm_prefetch(row + at + i * 64, _MM_HINT_T1);
    at += count * 64;
    if (at >= run) at = 0, row += stride;
  }
};

}  // namespace
}  // namespace pagedinfer
