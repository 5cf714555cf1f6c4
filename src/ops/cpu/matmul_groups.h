// Rows shared out among tiles whose height is known to the compiler.
#pragma once

#include "ops/cpu/vector.h"

namespace pagedinfer {
namespace {

// Calls f<n>() with n = rows.
template <int kMost, class F>
FORCE_INLINE void with_rows(int rows, const F& f) {
  if constexpr (kMost > 1) {
    if (rows < kMost) return with_rows<kMost - 1>(rows, f);
  }
  f.template operator()<kMost>();
}
// Calls f<n>(first row) for groups of n <= kMost rows, as few and as equal as can be.
template <int kMost, class F>
FORCE_INLINE void in_groups(int rows, const F& f) {
  const int groups = (rows + kMost - 1) / kMost;
  for (int i = 0; i < groups; ++i) {
    const int first = rows * i / groups, last = rows * (i + 1) / groups;
    with_rows<kMost>(last - first, [&]<int kRows>() { f.template operator()<kRows>(first); });
  }
}

// What is needed later, in the order it lies, asked of the memory a few lines at a time while
// something else is computed: only some dozens can be on their way. Into the second level: rows at
// a stride of 4 KiB evict each other from the first.
struct Ahead {
  const char* at;
  FORCE_INLINE void lines(int count) {
    for (int i = 0; i < count; ++i, at += 64) _mm_prefetch(at, _MM_HINT_T1);
  }
};

}  // namespace
}  // namespace pagedinfer
