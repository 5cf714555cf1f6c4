// Locates the keys and values of a segment in the cache, and computes the scores of its keys.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/kv_layout.h"
#include "ops/cpu/prefetch.h"
#include "ops/cpu/row_tiles.h"

namespace pagedinfer {
namespace {

constexpr int kDirectRows = 8;  // with more query rows, keys and values are widened once for all
constexpr int kPieces = kNativeLanes == 4 ? 1 : 2;  // pieces of keys that are scored together
constexpr int kValueKeys = 32;                      // keys whose values are added together

struct Range {
  int begin, end;  // empty if begin >= end
};
FORCE_INLINE Range intersect(Range a, Range b) {
  return {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

// Adjacent keys within a group of the cache: lanes lane, lane + 1, ... of the group are the keys
// key, key + 1, ... of the segment, `count` of them.
template <class T>
struct Piece {
  const T* group;
  int lane, count, key;
};

// The visible keys and values of a segment.
template <class T>
struct Located {
  Piece<T> piece[kSegmentKeys];
  const T* value[kSegmentKeys];  // by key
  int num_pieces = 0;
  // The memory that is read, in the order of reading, and then the first keys of the next segment.
  Span span[3 * kSegmentKeys];
  int num_spans = 0;
};

// Divides a range of the segment's keys into runs of adjacent cache positions that do not cross a
// group. Calls f(slot, key, count) with the first slot and key of each.
template <class F>
FORCE_INLINE void for_pieces(const AttentionRows& rows, int first, Range keys, const F& f) {
  for (int key = keys.begin; key < keys.end;) {
    const int block = (first + key) / rows.block_size, within = (first + key) % rows.block_size;
    int slot = rows.block_table[block] + within, next_block = block + 1;
    int count = rows.block_size - within;
    while (key + count < keys.end && rows.block_table[next_block] == slot + count) {
      count += rows.block_size;
      ++next_block;
    }
    const int end = key + count < keys.end ? key + count : keys.end;
    while (key < end) {
      const int room = kGroupPositions - slot % kGroupPositions;
      const int here = room < end - key ? room : end - key;
      f(slot, key, here);
      key += here;
      slot += here;
    }
  }
}

template <class T>
void locate(const AttentionRows& rows, const T* k, const T* v, int first, Range keys,
            Located<T>& located) {
  const int dim = rows.head_dim, row_bytes = dim * int(sizeof(T));
  const auto add_span = [&](const T* from, int num_rows) {
    located.span[located.num_spans++] = {(const char*)from, num_rows * row_bytes};
  };
  static_assert(kSpanPositions % kGroupPositions == 0);  // a group does not cross a span
  const auto row_of = [&](int slot) { return kv_row(slot, rows.kv_head, rows.kv_heads); };
  for_pieces(rows, first, keys, [&](int slot, int key, int count) {
    const int lane = slot % kGroupPositions;
    const int64_t row = row_of(slot);
    const T* group = k + (row - lane) * dim;
    located.piece[located.num_pieces++] = {group, lane, count, key};
    for (int i = 0; i < count; ++i) located.value[key + i] = v + (row + i) * dim;
    add_span(group, kGroupPositions);
  });
  for (int i = 0; i < located.num_pieces; ++i) {
    add_span(located.value[located.piece[i].key], located.piece[i].count);
  }
  const int left = rows.positions[rows.num_rows - 1] + 1 - first;
  const Range next = {kSegmentKeys, left < 2 * kSegmentKeys ? left : 2 * kSegmentKeys};
  for_pieces(rows, first, next, [&](int slot, int, int) {
    add_span(k + row_of(slot / kGroupPositions * kGroupPositions) * dim, kGroupPositions);
  });
}

// Loads dimensions i and i + 1 (bfloat16) or i (float32) of the 16 keys of a group.
template <class T>
constexpr int kDimsOfDword = 4 / sizeof(T);
FORCE_INLINE void load_dimensions(const float* group, int i, f32x16* dimension) {
  dimension[0] = load(group + i * kGroupPositions);
}
FORCE_INLINE void load_dimensions(const bf16* group, int i, f32x16* dimension) {
  const i32x16 pair = load((const int32_t*)(group + i * kGroupPositions));
  dimension[0] = bits_as<f32x16>(shift_left<16>(pair));
  dimension[1] = bits_as<f32x16>(pair & broadcast(int32_t(0xffff0000)));
}

// The scores of kRows rows and kNumPieces pieces: an fma chain from +0 over the dimensions each.
template <int kRows, int kNumPieces, class T, class F>
FORCE_INLINE void score_tile(const float* q, int dim, const Piece<T>* piece, F& fetcher,
                             float* scores) {
  f32x16 sum[kRows][kNumPieces];
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kNumPieces; ++p) sum[r][p] = broadcast(0.0f);
  }
  for (int i = 0; i < dim; i += kDimsOfDword<T>) {
    fetcher.fetch(kNumPieces);
    f32x16 keys[kDimsOfDword<T>][kNumPieces];
    for (int p = 0; p < kNumPieces; ++p) {
      f32x16 dimension[kDimsOfDword<T>];
      load_dimensions(piece[p].group, i, dimension);
      keys[0][p] = dimension[0];
      if constexpr (kDimsOfDword<T> == 2) keys[1][p] = dimension[1];
    }
    for (int d = 0; d < kDimsOfDword<T>; ++d) {
      for (int r = 0; r < kRows; ++r) {
        const f32x16 left = broadcast(q[r * dim + i + d]);
        for (int p = 0; p < kNumPieces; ++p) sum[r][p] = fma(left, keys[d][p], sum[r][p]);
      }
    }
  }
  alignas(64) float lanes[kRows][kNumPieces][16];
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kNumPieces; ++p) store(lanes[r][p], sum[r][p]);
  }
  for (int p = 0; p < kNumPieces; ++p) {
    for (int r = 0; r < kRows; ++r) {
      float* to = scores + r * kSegmentKeys + piece[p].key;
      if (piece[p].count == kGroupPositions) {
        store(to, load(lanes[r][p]));
      } else {
        memcpy(to, lanes[r][p] + piece[p].lane, piece[p].count * sizeof(float));
      }
    }
  }
}

template <int kRows, class T, class F>
FORCE_INLINE void score_rows(const float* q, int dim, const Piece<T>* piece, int num_pieces,
                             F& fetcher, float* scores) {
  int p = 0;
  for (; p + kPieces <= num_pieces; p += kPieces) {
    score_tile<kRows, kPieces>(q, dim, piece + p, fetcher, scores);
  }
  for (; p < num_pieces; ++p) score_tile<kRows, 1>(q, dim, piece + p, fetcher, scores);
}

template <class T>
FORCE_INLINE void score_pieces(const AttentionRows& rows, const Piece<T>* piece, int num_pieces,
                               SpanPrefetcher* fetcher, float* scores) {
  in_tiles(rows.num_rows, [&]<int kRows>(int r) {
    const float* q = rows.q + r * rows.head_dim;
    float* to = scores + r * kSegmentKeys;
    NoPrefetcher none;
    if (fetcher && r == 0) {
      score_rows<kRows>(q, rows.head_dim, piece, num_pieces, *fetcher, to);
    } else {
      score_rows<kRows>(q, rows.head_dim, piece, num_pieces, none, to);
    }
  });
}

// score_pieces() for bfloat16 keys that are widened once for all rows.
void score_widened(const AttentionRows& rows, const Located<bf16>& located, SpanPrefetcher& fetcher,
                   float* panel, float* scores) {
  const int size = rows.head_dim * kGroupPositions;
  for (int first = 0; first < located.num_pieces; first += kPieces) {
    const int left = located.num_pieces - first, count = left < kPieces ? left : kPieces;
    Piece<float> wide[kPieces];
    for (int p = 0; p < count; ++p) {
      const Piece<bf16>& narrow = located.piece[first + p];
      float* to = panel + p * size;
      for (int i = 0; i < rows.head_dim; i += 2) {
        f32x16 dimension[2];
        fetcher.fetch(1);
        load_dimensions(narrow.group, i, dimension);
        store(to + i * kGroupPositions, dimension[0]);
        store(to + (i + 1) * kGroupPositions, dimension[1]);
      }
      wide[p] = {to, narrow.lane, narrow.count, narrow.key};
    }
    score_pieces(rows, wide, count, nullptr, scores);
  }
}

// Computes scores[r * kSegmentKeys + key] for every row and located key.
template <class T>
void score_segment(const AttentionRows& rows, const Located<T>& located, SpanPrefetcher& fetcher,
                   float* panel, float* scores) {
  if constexpr (sizeof(T) == 2) {
    if (rows.num_rows > kDirectRows) return score_widened(rows, located, fetcher, panel, scores);
  }
  score_pieces(rows, located.piece, located.num_pieces, &fetcher, scores);
}

}  // namespace
}  // namespace pagedinfer
