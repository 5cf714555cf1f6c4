// A panel holds 16 rows of a matrix (weights, keys) transposed and widened to float32: its row i is
// element i of each, so that one broadcast times one vector advances 16 sums.
#pragma once
#include "ops/cpu/vector.h"

namespace pagedinfer {
namespace {

template <class T>
constexpr int kStep = 64 / sizeof(T);  // elements of a row that fill 16 dwords

// Asks the memory for the lines of a list of rows in the order they lie, a few at a time, while
// something else is computed: only a dozen can be on their way, and any other order is much slower.
template <class T>
struct Fetcher {
  const T* const* row;
  const T* const* end;
  int row_length;
  int at = 0;
  FORCE_INLINE void lines(int count) {
    for (; count > 0 && row < end; --count) {
      _mm_prefetch((const char*)(*row + at), _MM_HINT_T0);
      at += kStep<T>;
      if (at >= row_length) at = 0, ++row;
    }
  }
};

struct NoFetcher {
  void lines(int) {}
};

// panel[i * 16 + lane] = row[lane][i] for i < n; the panel's rows up to a multiple of kStep become
// +0.
template <class T>
void transpose_rows(const T* const row[16], int n, float* panel, Fetcher<T>& fetcher) {
  const auto write = [&](const float* const from[16]) {
    f32x16 column[16];
    load_transposed(from, column);
    for (int i = 0; i < 16; ++i, panel += 16 * 4 / sizeof(T)) {
      if constexpr (sizeof(T) == 4) {
        store(panel, column[i]);
      } else {  // the lower half of a dword comes first
        const i32x16 pair = bits_as<i32x16>(column[i]);
        store(panel, bits_as<f32x16>(shift_left<16>(pair)));
        store(panel + 16, bits_as<f32x16>(pair & broadcast(int32_t(0xffff0000))));
      }
    }
  };
  const float* from[16];
  int start = 0;
  for (; start + kStep<T> <= n; start += kStep<T>) {
    for (int lane = 0; lane < 16; ++lane) from[lane] = (const float*)(row[lane] + start);
    fetcher.lines(8);
    write(from);
  }
  if (start == n) return;
  T padded[16][kStep<T>] = {};
  for (int lane = 0; lane < 16; ++lane) {
    memcpy(padded[lane], row[lane] + start, (n - start) * sizeof(T));
    from[lane] = (const float*)padded[lane];
  }
  write(from);
}

}  // namespace
}  // namespace pagedinfer
