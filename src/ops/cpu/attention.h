// Attention of a few query rows over one segment of keys, which are read through the block table.
//
// The definition for one row: a score is one fma chain from +0 over the dimensions of the head,
// ascending; if the key has a scale, the score is then multiplied by it; if there is a cap, the
// score becomes cap * tanh(score / cap). A segment is kSegmentKeys keys, beginning at a multiple of
// kSegmentKeys. Over its visible keys, largest is the largest score; p = exp(score - largest); sum
// is sixteen interleaved sums of p (lane = key mod 16), then tree_sum(); out is, for each
// dimension, one fma chain of p * value from +0 over the keys, ascending, where p has been
// multiplied by the scale of the value if there is one. The state of a segment without a visible
// key is (-inf, 0, 0). Segments are combined in ascending order.
#pragma once

#include "ops/cpu/attention_values.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vector_math.h"

namespace pagedinfer {
namespace {

// Replaces the scores by p, which is 0 for keys that are not visible. Every loop runs over all
// rows, so that the processor overlaps the chains of dependent operations of several rows.
void softmax_segment(float* scores, const Range* visible, int rows, SpanPrefetcher& fetcher,
                     AttentionState state) {
  f32x16 vector[kMaxAttentionRows];
  const auto for_vectors = [&](int r, const auto& f) {
    for (int i = visible[r].begin & -16; i < visible[r].end; i += 16) {
      f(scores + r * kSegmentKeys + i);
    }
  };
  for (int r = 0; r < rows; ++r) {
    const auto [begin, end] = visible[r];
    float* row = scores + r * kSegmentKeys;
    for (int i = begin & -16; i < begin; ++i) row[i] = -__builtin_inff();
    for (int i = end; i < ((end + 15) & -16); ++i) row[i] = -__builtin_inff();
    vector[r] = broadcast(-__builtin_inff());
    for_vectors(r, [&](const float* at) { vector[r] = max(vector[r], load(at)); });
  }
  for (int r = 0; r < rows; ++r) state.largest[r] = max_lane(vector[r]);
  for (int r = 0; r < rows; ++r) {
    const f32x16 shift = broadcast(state.largest[r]);
    f32x16 total = broadcast(0.0f);
    for_vectors(r, [&](float* at) {
      fetcher.fetch(1);
      const f32x16 p = exp_of_negative(load(at) - shift);
      store(at, p);
      total = total + p;
    });
    vector[r] = total;
  }
  for (int r = 0; r < rows; ++r) state.sum[r] = tree_sum(vector[r]);
}

// Multiplies the scores or the p of all located keys by the scales of their rows in the cache.
template <class T>
void multiply_by_scales(const float* scales, const Located<T>& located, int num_rows, Range keys,
                        SpanPrefetcher& fetcher, float* scores) {
  alignas(64) float by_key[kSegmentKeys];
  for (int i = 0; i < located.num_pieces; ++i) {
    const Piece<T>& piece = located.piece[i];
    const float* from = scales + located.row[i];
    fetcher.fetch(1);
    if (piece.count == kGroupPositions) {
      store(by_key + piece.key, load(from));
    } else {
      memcpy(by_key + piece.key, from, piece.count * sizeof(float));
    }
  }
  for (int i = keys.begin & -16; i < keys.end; i += 16) {
    const f32x16 scale = load(by_key + i);
    for (int r = 0; r < num_rows; ++r) {
      float* at = scores + r * kSegmentKeys + i;
      store(at, load(at) * scale);
    }
  }
}

void cap_scores(const AttentionRows& rows, Range keys, float* scores) {
  const f32x16 cap = broadcast(rows.softcap);
  for (int r = 0; r < rows.num_rows; ++r) {
    for (int i = keys.begin & -16; i < keys.end; i += 16) {
      float* at = scores + r * kSegmentKeys + i;
      store(at, softcap(load(at), cap));
    }
  }
}

template <class T>
void attend_segment(const AttentionRows& rows, const T* k, const T* v, int index, bool is_first,
                    AttentionState state) {
  float* const scores = rows.scratch;
  float* const panel = scores + kMaxAttentionRows * kSegmentKeys;
  static_assert(kWidePieces * kGroupPositions <= kValueKeys);
  const int num_rows = rows.num_rows, dim = rows.head_dim, first = index * kSegmentKeys;

  Range visible[kMaxAttentionRows], any = {0, 0};
  for (int r = 0; r < num_rows; ++r) {
    visible[r] = visible_keys(rows, r, first);
    any = joined(any, visible[r]);
  }
  memset(state.out, 0, sizeof(float) * num_rows * dim);
  if (any.begin >= any.end) {
    for (int r = 0; r < num_rows; ++r) state.largest[r] = -__builtin_inff(), state.sum[r] = 0;
    return;
  }

  Located<T> located;
  locate(rows, k, v, first, any, located);
  SpanPrefetcher fetcher(located.span, located.span + located.num_spans);
  is_first ? fetcher.fetch(SpanPrefetcher::kDistance) : fetcher.skip(SpanPrefetcher::kDistance);
  score_segment(rows, located, fetcher, panel, scores);
  if constexpr (kHasScales<T>) {
    multiply_by_scales(rows.k_scale, located, num_rows, any, fetcher, scores);
  }
  if (rows.softcap > 0) cap_scores(rows, any, scores);
  softmax_segment(scores, visible, num_rows, fetcher, state);
  if constexpr (kHasScales<T>) {
    multiply_by_scales(rows.v_scale, located, num_rows, any, fetcher, scores);
  }
  add_values(scores, visible, num_rows, any, located, dim, fetcher, panel, state.out);
}

// Adds `part` to `total`. With `largest` the larger of the two:
//   sum = total.sum * exp(total.largest - largest) + part.sum * exp(part.largest - largest)
// and out likewise. Each product is rounded. A part without a visible key changes nothing.
void combine(AttentionState total, AttentionState part, int num_rows, int head_dim) {
  const float nothing = -__builtin_inff();
  alignas(64) float keep[kMaxAttentionRows], add[kMaxAttentionRows];
  for (int r = 0; r < num_rows; r += 16) {
    const int left = num_rows - r;
    const f32x16 before = load_part(total.largest + r, left),
                 after = load_part(part.largest + r, left);
    const f32x16 largest = select(after != broadcast(nothing), max(before, after), before);
    store(keep + r, exp_of_negative(before - largest));
    store(add + r, exp_of_negative(after - largest));
    store_part(total.largest + r, left, largest);
  }
  for (int r = 0; r < num_rows; ++r) {
    if (part.largest[r] == nothing) continue;
    total.sum[r] = total.sum[r] * keep[r] + part.sum[r] * add[r];
    const f32x16 scale = broadcast(keep[r]), part_scale = broadcast(add[r]);
    for (int d = r * head_dim; d < (r + 1) * head_dim; d += 16) {
      store(total.out + d, load(total.out + d) * scale + load(part.out + d) * part_scale);
    }
  }
}

// As combine() with a state of (sink, 1, 0).
void add_sinks(AttentionState total, const float* sinks, int num_rows, int head_dim) {
  for (int r = 0; r < num_rows; ++r) {
    const f32x16 before = broadcast(total.largest[r]), sink = broadcast(sinks[r]);
    const f32x16 largest = max(before, sink);
    alignas(64) float keep[16], add[16];
    store(keep, exp_of_negative(before - largest));
    store(add, exp_of_negative(sink - largest));
    total.sum[r] = total.sum[r] * keep[0] + add[0];
    const f32x16 scale = broadcast(keep[0]);
    for (int d = r * head_dim; d < (r + 1) * head_dim; d += 16) {
      store(total.out + d, load(total.out + d) * scale);
    }
  }
}

void divide(AttentionState total, int num_rows, int head_dim) {
  for (int r = 0; r < num_rows; ++r) {
    const f32x16 sum = broadcast(total.sum[r]);
    for (int d = r * head_dim; d < (r + 1) * head_dim; d += 16) {
      store(total.out + d, load(total.out + d) / sum);
    }
  }
}

}  // namespace
}  // namespace pagedinfer
