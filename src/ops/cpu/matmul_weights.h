// Reads bfloat16 weights in place, sixteen rows (outputs) at a time, and transposes them in
// registers, so that a vector holds the same column of sixteen rows.
#pragma once

#include "ops/cpu/bf16_layout.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/prefetch.h"

namespace pagedinfer {
namespace {

constexpr int kSumStep =
    32;                      // columns whose products are summed before they are added to the total
constexpr int kChunk = 128;  // columns that are copied and transposed at a time

// A chunk of sixteen rows.
struct ChunkCopy {
  alignas(64) bf16 rows[16 * kChunk];
};

// Copies the chunk of the 16 rows from `output` that begins at column k, padded with +0 beyond the
// last output and column. It is copied because rows at a stride of 4 KiB share one set of the
// first-level cache, which does not hold sixteen lines: reading in place would fetch lines more
// than once.
inline void copy_weights(const MatmulArgs& args, int output, int k, ChunkCopy& copy) {
  const int outputs = args.last - output < 16 ? args.last - output : 16;
  const int columns = args.k - k < kChunk ? args.k - k : kChunk;
  const bf16* from = (const bf16*)args.weights + output * args.weight_stride + k;
  if (outputs == 16 && columns == kChunk) {
    for (int i = 0; i < 16; ++i, from += args.weight_stride) {
      for (int j = 0; j < kChunk; j += 32) {
        store((int32_t*)(copy.rows + i * kChunk + j), load((const int32_t*)(from + j)));
      }
    }
    return;
  }
  memset(copy.rows, 0, sizeof copy.rows);
  for (int i = 0; i < outputs; ++i, from += args.weight_stride) {
    memcpy(copy.rows + i * kChunk, from, columns * sizeof(bf16));
  }
}

// Prefetches columns [first, last) of the rows from `output` on.
FORCE_INLINE RowPrefetcher prefetch_weights(const MatmulArgs& args, int output, int first,
                                            int last) {
  const bf16* row = (const bf16*)args.weights + output * args.weight_stride;
  constexpr int64_t kSize = sizeof(bf16);
  return {(const char*)(row + first), args.weight_stride * kSize, (last - first) * kSize};
}

// Interleaves 16 rows of kBf16Step numbers, as a panel has them (bf16_layout.h).
template <bool kPastCaches = false>
FORCE_INLINE void interleave_rows(const bf16* rows, int64_t stride, bf16* panel) {
  const float* from[16];  // pairs, which are only moved
  for (int i = 0; i < 16; ++i) from[i] = (const float*)(rows + i * stride);
  f32x16 pairs[16];
  load_transposed(from, pairs);
  for (const f32x16& pair : pairs) {
    if constexpr (kPastCaches) {
      store_past_caches((float*)panel, pair);
    } else {
      store((int32_t*)panel, bits_as<i32x16>(pair));
    }
    panel += 2 * kBf16Panel;
  }
}

// Loads sixteen bytes from each of four addresses.
FORCE_INLINE f32x16 load_quarters(const char* a, const char* b, const char* c, const char* d) {
  const auto quarter = [](const char* from) { return _mm_loadu_si128((const __m128i*)from); };
  f32x16 r;
#if defined(__AVX512F__)
  __m512i all = _mm512_castsi128_si512(quarter(a));
  all = _mm512_mask_broadcast_i32x4(all, 0x00f0, quarter(b));
  all = _mm512_mask_broadcast_i32x4(all, 0x0f00, quarter(c));
  all = _mm512_mask_broadcast_i32x4(all, 0xf000, quarter(d));
  r.part[0] = (f32x16::Native)all;
#elif defined(__AVX2__)
  const auto half = [&](const char* low, const char* high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(quarter(low)), quarter(high), 1);
  };
  r.part[0] = (f32x16::Native)half(a, b);
  r.part[1] = (f32x16::Native)half(c, d);
#else
  const char* const from[4] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) r.part[i] = (f32x16::Native)quarter(from[i]);
#endif
  return r;
}

// Calls f(pair, even, odd) for each pair of columns in one step of a chunk: the two columns as
// float32, a lane for each row. The loads do half of the transposition, which relieves the shuffle
// port.
template <class F>
FORCE_INLINE void for_pairs(const bf16* rows, const F& f) {
#pragma GCC unroll 4
  for (int quarter = 0; quarter < 4; ++quarter) {
    f32x16 column[4];
    for (int i = 0; i < 4; ++i) {
      const char* from = (const char*)(rows + i * kChunk + quarter * 8);
      constexpr int kFourRows = 4 * kChunk * sizeof(bf16);
      column[i] = load_quarters(from, from + kFourRows, from + 2 * kFourRows, from + 3 * kFourRows);
    }
    interleave<1>(column[0], column[1]);
    interleave<1>(column[2], column[3]);
    interleave<2>(column[0], column[2]);
    interleave<2>(column[1], column[3]);
    const int order[4] = {0, 2, 1, 3};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const i32x16 pair = bits_as<i32x16>(column[order[i]]);
      f(4 * quarter + i, bits_as<f32x16>(shift_left<16>(pair)),
        bits_as<f32x16>(pair & broadcast(int32_t(0xffff0000))));
    }
  }
}

}  // namespace
}  // namespace pagedinfer
