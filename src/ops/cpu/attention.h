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
//
// Over a cache in bfloat16 scores and out have the order of tiles (attention_steps.h), of q and p
// in bfloat16; scores are times log2(e), and powers are of 2.
#pragma once

#include "ops/cpu/attention_step_values.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vector_math.h"

namespace pagedinfer {
namespace {

template <bool kSteps>
FORCE_INLINE f32x16 power_of_difference(const f32x16& difference) {
  return kSteps ? exp2_of_negative(difference) : exp_of_negative(difference);
}

// Replaces the scores by p, which is 0 for keys that are not visible. Every loop runs over all
// rows, so that the processor overlaps the chains of dependent operations of several rows.
template <bool kSteps>
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
    const bool is_nothing = kSteps && state.largest[r] == -__builtin_inff();
    const f32x16 shift = broadcast(is_nothing ? 0.0f : state.largest[r]);
    f32x16 total = broadcast(0.0f);
    for_vectors(r, [&](float* at) {
      fetcher.fetch(1);
      const f32x16 p = power_of_difference<kSteps>(load(at) - shift);
      store(at, kSteps ? round_to_bf16(p) : p);
      total = total + p;
    });
    vector[r] = total;
  }
  for (int r = 0; r < rows; ++r) {
    state.sum[r] = tree_sum(vector[r]);
    if (kSteps && state.sum[r] != state.sum[r]) state.largest[r] = state.sum[r];
  }
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

template <bool kSteps>
void cap_scores(const AttentionRows& rows, Range keys, float* scores) {
  const f32x16 cap = broadcast(rows.softcap);
  for (int r = 0; r < rows.num_rows; ++r) {
    for (int i = keys.begin & -16; i < keys.end; i += 16) {
      float* at = scores + r * kSegmentKeys + i;
      const f32x16 capped = softcap(load(at), cap);
      store(at, kSteps ? capped * broadcast(kLog2E) : capped);
    }
  }
}

template <class T>
void attend_segment(const AttentionRows& rows, const T* k, const T* v, int index, bool is_first,
                    AttentionState state) {
  float* const scores = rows.scratch;
  float* const panel = scores + kAttentionScores;
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
  if (rows.softcap > 0) cap_scores<kInSteps<T>>(rows, any, scores);
  softmax_segment<kInSteps<T>>(scores, visible, num_rows, fetcher, state);
  if constexpr (kHasScales<T>) {
    multiply_by_scales(rows.v_scale, located, num_rows, any, fetcher, scores);
  }
  if constexpr (kInSteps<T>) {
    add_values_in_steps(scores, visible, num_rows, any, located, dim, fetcher, panel, state.out);
    for (int r = 0; r < num_rows;
         ++r) {  // of visible scores of -infinity and a value that is not finite
      if (state.largest[r] == -__builtin_inff()) {
        memset(state.out + r * dim, 0, sizeof(float) * dim);
      }
    }
  } else {
    add_values(scores, visible, num_rows, any, located, dim, fetcher, panel, state.out);
  }
}

// Adds `part` to `total`. With `largest` the larger of the two:
//   sum = total.sum * exp(total.largest - largest) + part.sum * exp(part.largest - largest)
// and out likewise; in steps with exp2. Each product is rounded. A part without a visible key
// changes nothing.
template <bool kSteps>
void combine(AttentionState total, AttentionState part, int num_rows, int head_dim) {
  const float nothing = -__builtin_inff();
  alignas(64) float keep[kMaxAttentionRows], add[kMaxAttentionRows];
  for (int r = 0; r < num_rows; r += 16) {
    const int left = num_rows - r;
    const f32x16 before = load_part(total.largest + r, left),
                 after = load_part(part.largest + r, left);
    const f32x16 largest = select(after != broadcast(nothing), max(before, after), before);
    store(keep + r, power_of_difference<kSteps>(before - largest));
    store(add + r, power_of_difference<kSteps>(after - largest));
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

template <class T>
void attend(const AttentionRows& rows, const void* k, const void* v, const Segments& segments,
            AttentionState total) {
  const auto segment = [&](int index, AttentionState state) {
    attend_segment(rows, (const T*)k, (const T*)v, index,
                   index == segments.first && !segments.continues, state);
  };
  segment(segments.first, total);
  const AttentionState part = part_state(rows.scratch);
  for (int index = segments.first + 1; index < segments.end; ++index) {
    segment(index, part);
    combine<kInSteps<T>>(total, part, rows.num_rows, rows.head_dim);
  }
}

// As combine() with a state of (sink, 1, 0).
template <bool kSteps>
void add_sinks(AttentionState total, const float* sinks, int num_rows, int head_dim) {
  for (int r = 0; r < num_rows; ++r) {
    const f32x16 before = broadcast(total.largest[r]);
    const f32x16 sink = broadcast(kSteps ? sinks[r] * kLog2E : sinks[r]);
    const f32x16 largest = max(before, sink);
    alignas(64) float keep[16], add[16];
    store(keep, power_of_difference<kSteps>(before - largest));
    store(add, power_of_difference<kSteps>(sink - largest));
    total.sum[r] = total.sum[r] * keep[0] + add[0];
    const f32x16 scale = broadcast(keep[0]);
    for (int d = r * head_dim; d < (r + 1) * head_dim; d += 16) {
      store(total.out + d, load(total.out + d) * scale);
    }
  }
}

// In steps the sign of a zero may depend on keys that are not visible: a zero becomes +0.
template <bool kSteps>
void divide(AttentionState total, int num_rows, int head_dim) {
  for (int r = 0; r < num_rows; ++r) {
    const f32x16 sum = broadcast(total.sum[r]);
    for (int d = r * head_dim; d < (r + 1) * head_dim; d += 16) {
      const f32x16 out = load(total.out + d);
      store(total.out + d, (kSteps ? out + broadcast(0.0f) : out) / sum);
    }
  }
}

void scale_query(const float* q, float scale, float, float* to, int64_t n) {
  scale_row(q, scale, to, n);
}
void round_query(const float* q, float scale, float softcap, float* to, int64_t n) {
  const float by = softcap > 0 ? scale : scale * kLog2E;
  for (int64_t i = 0; i < n; ++i) {
    to[i] = __builtin_bit_cast(float, nearest_bf16(q[i] * by) << 16);
  }
}

template <class T>
constexpr AttentionKernels kAttentionOver = {kInSteps<T> ? round_query : scale_query, attend<T>,
                                             combine<kInSteps<T>>, add_sinks<kInSteps<T>>,
                                             divide<kInSteps<T>>};

}  // namespace
}  // namespace pagedinfer
