// Scores of the keys of a segment.
#pragma once

#include "ops/cpu/attention_step_keys.h"

namespace pagedinfer {
namespace {

constexpr int kDirectRows = 8;  // with more query rows, keys and values are widened once for all
constexpr int kWidePieces = kNativeLanes == 4 ? 1 : 2;  // pieces of keys that are widened together

// Rows that are scored together: with their sums they fill the registers that the keys leave.
template <class T>
constexpr int kScoreRows = kNativeLanes == 16  ? (sizeof(T) == 4 ? 8 : 4)
                           : kNativeLanes == 8 ? (sizeof(T) == 4 ? 6 : 4)
                                               : 1;
// Pieces of keys that are scored together. AVX2 has registers for one if there are many rows. One
// row of 8-bit keys needs more of them: their chains of fmas, two at a time, would take longer than
// reading the keys.
template <int kRows, class T>
constexpr int kPieces = kNativeLanes == 8 && kRows > kTileRows                    ? 1
                        : sizeof(T) == 1 && kNativeLanes > 4 && kRows < kTileRows ? 4
                                                                                  : kWidePieces;

// Dimensions of the 16 keys of a group that are loaded together, from i on, and those that lie in
// 64 bytes.
template <class T>
constexpr int kDimsOfLoad = std::is_same_v<T, bf16> ? 2 : 1;
template <class T>
constexpr int kDimsOfLine = 4 / sizeof(T);
FORCE_INLINE void load_dimensions(const float* group, int i, f32x16* dimension) {
  dimension[0] = load(group + i * kGroupPositions);
}
FORCE_INLINE void load_dimensions(const bf16* group, int i, f32x16* dimension) {
  const i32x16 pair = load((const int32_t*)(group + i * kGroupPositions));
  dimension[0] = bits_as<f32x16>(shift_left<16>(pair));
  dimension[1] = bits_as<f32x16>(pair & broadcast(int32_t(0xffff0000)));
}

template <class T>
FORCE_INLINE void load_dimensions(const T* group, int i, f32x16* dimension) {
  dimension[0] = load_as_float(group + i * kGroupPositions);
}

// The scores of kRows rows and kNumPieces pieces: an fma chain from +0 over the dimensions each.
template <int kRows, int kNumPieces, class T, class F>
TILE_FUNCTION void score_tile(const float* q, int dim, const Piece<T>* piece, F& shared_fetcher,
                              float* scores) {
  F fetcher = shared_fetcher;
  f32x16 sum[kRows][kNumPieces];
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kNumPieces; ++p) sum[r][p] = broadcast(0.0f);
  }
  for (int line = 0; line < dim; line += kDimsOfLine<T>) {
    fetcher.fetch(kNumPieces);
#pragma GCC unroll 4
    for (int i = line; i < line + kDimsOfLine<T>; i += kDimsOfLoad<T>) {
      f32x16 keys[kDimsOfLoad<T>][kNumPieces];
      for (int p = 0; p < kNumPieces; ++p) {
        f32x16 dimension[kDimsOfLoad<T>];
        load_dimensions(piece[p].group, i, dimension);
        for (int d = 0; d < kDimsOfLoad<T>; ++d) keys[d][p] = dimension[d];
      }
      for (int d = 0; d < kDimsOfLoad<T>; ++d) {
        for (int r = 0; r < kRows; ++r) {
          const f32x16 left = broadcast(q[r * dim + i + d]);
          for (int p = 0; p < kNumPieces; ++p) sum[r][p] = fma(left, keys[d][p], sum[r][p]);
        }
      }
    }
  }
  shared_fetcher = fetcher;
  unrolled<kNumPieces>([&]<int p>() INLINE_LAMBDA {
    float* const to = scores + piece[p].key;
    const bool is_whole = piece[p].count == kGroupPositions;
    unrolled<kRows>([&]<int r>() INLINE_LAMBDA {
      float* const row = to + r * kSegmentKeys;
      if (is_whole) return store(row, sum[r][p]);
      alignas(64) float lanes[16];
      store(lanes, sum[r][p]);
      memcpy(row, lanes + piece[p].lane, piece[p].count * sizeof(float));
    });
  });
}

template <bool kSteps, int kRows, class T, class F>
FORCE_INLINE void score_rows(const float* q, int dim, const Piece<T>* piece, int num_pieces,
                             F& fetcher, float* scores) {
  constexpr int kTogether = kPieces<kRows, T>;
  int p = 0;
  const auto score = [&]<int kNumPieces>() INLINE_LAMBDA {
    if constexpr (kSteps) {
      score_tile_in_steps<kRows, kNumPieces>(q, dim, piece + p, fetcher, scores);
    } else {
      score_tile<kRows, kNumPieces>(q, dim, piece + p, fetcher, scores);
    }
  };
  for (; p + kTogether <= num_pieces; p += kTogether) score.template operator()<kTogether>();
  for (; p < num_pieces; ++p) score.template operator()<1>();
}

template <bool kSteps, class T>
FORCE_INLINE void score_pieces(const AttentionRows& rows, const Piece<T>* piece, int num_pieces,
                               SpanPrefetcher* fetcher, float* scores) {
  in_tiles<kScoreRows<T>>(rows.num_rows, [&]<int kRows>(int r) {
    const float* q = rows.q + r * rows.head_dim;
    float* to = scores + r * kSegmentKeys;
    NoPrefetcher none;
    if (fetcher && r == 0) {
      score_rows<kSteps, kRows>(q, rows.head_dim, piece, num_pieces, *fetcher, to);
    } else {
      score_rows<kSteps, kRows>(q, rows.head_dim, piece, num_pieces, none, to);
    }
  });
}

// score_pieces() for narrow keys that are widened once for all rows.
template <class T>
void score_widened(const AttentionRows& rows, const Located<T>& located, SpanPrefetcher& fetcher,
                   float* panel, float* scores) {
  const int size = rows.head_dim * kGroupPositions;
  for (int first = 0; first < located.num_pieces; first += kWidePieces) {
    const int left = located.num_pieces - first, count = left < kWidePieces ? left : kWidePieces;
    Piece<float> wide[kWidePieces];
    for (int p = 0; p < count; ++p) {
      const Piece<T>& narrow = located.piece[first + p];
      float* to = panel + p * size;
      for (int i = 0; i < rows.head_dim; i += kDimsOfLoad<T>) {
        f32x16 dimension[kDimsOfLoad<T>];
        if (i % kDimsOfLine<T> == 0) fetcher.fetch(1);
        load_dimensions(narrow.group, i, dimension);
        for (int d = 0; d < kDimsOfLoad<T>; ++d) {
          store(to + (i + d) * kGroupPositions, dimension[d]);
        }
      }
      wide[p] = {to, narrow.lane, narrow.count, narrow.key};
    }
    score_pieces<kInSteps<T>>(rows, wide, count, nullptr, scores);
  }
}

// Computes scores[r * kSegmentKeys + key] for every row and located key.
template <class T>
void score_segment(const AttentionRows& rows, const Located<T>& located, SpanPrefetcher& fetcher,
                   float* panel, float* scores) {
  if constexpr (sizeof(T) < 4) {
    if (rows.num_rows > kDirectRows) return score_widened(rows, located, fetcher, panel, scores);
  }
  score_pieces<kInSteps<T>>(rows, located.piece, located.num_pieces, &fetcher, scores);
}

}  // namespace
}  // namespace pagedinfer
