// Attention of a few query rows over one segment of keys, read through the block table.
//
// Definition, per row. A score is one fma chain from +0 over the head's dimensions, ascending. A
// segment is kSegmentKeys keys from an absolute multiple of it; of its visible keys: largest = the
// largest score; p = exp(score - largest); sum = sixteen interleaved sums of p (lane = key mod 16),
// then the tree; out = one fma chain from +0 over the keys, ascending, for each dimension.
// Invisible keys take no part and are not read; a segment without a visible key has the state
// (-inf, 0, 0). Segments are combined in ascending order.
#pragma once
#include "ops/cpu/kernels.h"
#include "ops/cpu/panel.h"
#include "ops/cpu/tile.h"
#include "ops/cpu/vector_math.h"

namespace pagedinfer {
namespace {

constexpr int kPanelKeys = kNativeLanes == 4 ? 16 : 32;
constexpr int kDirectRows = 8;  // for more query rows, values are widened once

// The right factors of chains: transposed keys, values widened already, values in the cache.
template <class F>
struct KeyPanels {
  static constexpr int kVectors = kPanelKeys / 16;
  const float* first;
  int dim;
  F& fetcher;
  f32x16 vector(int i, int j) const { return load(first + j * dim + i * 16); }
  void fetch(int i) const { fetcher.lines(i % 2); }
};
struct FloatValues {
  static constexpr int kVectors = kPanelKeys / 16;
  const float* first;
  int dim;
  f32x16 vector(int i, int j) const { return load(first + i * dim + j); }
  void fetch(int) const {}
};
template <class T>
struct CacheValues {
  static constexpr int kVectors = kNativeLanes == 16 ? 4 : kPanelKeys / 16;
  const T* const* row;
  Fetcher<T>* fetcher;
  f32x16 vector(int i, int j) const { return load_as_float(row[i] + j); }
  void fetch(int) const { fetcher->lines(kVectors * 16 / kStep<T>); }
};

struct Range {
  int begin, end;  // empty if begin >= end
};
FORCE_INLINE Range intersect(Range a, Range b) {
  return {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

// The keys of the segment from `first` that a row sees, relative to `first`.
Range visible_keys(const AttentionRows& args, int row, int first) {
  const int end = args.positions[row] + 1;
  const int begin = args.window > 0 && end > args.window ? end - args.window : 0;
  return intersect({begin - first, end - first}, {0, kSegmentKeys});
}

// Writes where the rows of the keys of a range lie, relative to `first`; returns the end of the
// list. The range is widened to whole panels by repeating the rows at its ends: others may not be
// read.
template <class T>
const T** locate(const AttentionRows& args, const T* cache, int first, Range keys, const T** row) {
  const int before = keys.begin % kPanelKeys, after = -keys.end & (kPanelKeys - 1);
  const T** to = row + before;
  int block = (first + keys.begin) / args.block_size,
      within = (first + keys.begin) % args.block_size;
  for (int left = keys.end - keys.begin; left > 0; within = 0) {
    const int64_t slot = int64_t(args.block_table[block++]) + within;
    const int here = args.block_size - within < left ? args.block_size - within : left;
    const T* from = cache + slot * args.head_dim;
    for (int i = 0; i < here; ++i, from += args.head_dim) *to++ = from;
    left -= here;
  }
  for (int i = 0; i < before; ++i) row[i] = row[before];
  for (int i = 0; i < after; ++i, ++to) *to = to[-1];
  return to;
}

// Turns rows of scores into p, zero where the key is not visible. Each loop takes all the rows, so
// that one row's long chains of dependent steps run beside the next one's.
void softmax_segment(float* scores, const Range* visible, int rows, AttentionState state) {
  f32x16 vector[kMaxAttentionRows];
  const auto for_vectors = [&](int r, const auto& f) {
    for (int i = visible[r].begin & -16; i < visible[r].end; i += 16)
      f(scores + r * kSegmentKeys + i);
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
      const f32x16 p = exp(load(at) - shift);
      store(at, p);
      total = total + p;
    });
    vector[r] = total;
  }
  for (int r = 0; r < rows; ++r) state.sum[r] = tree_sum(vector[r]);
}

// out = fma over the visible ones of the keys `here`, ascending. Rows go together over the keys
// that all of them see; a row's own come before and after.
template <int kRows, class Right>
void add_values(const float* p, const Range* visible, Range here, const Right& values, int dim,
                float* out) {
  const auto add = [&]<int kCount>(int r, Range keys) {
    if (keys.begin >= keys.end) return;
    chain<kCount>(p + r * kSegmentKeys, kSegmentKeys, values, keys.begin, keys.end, out + r * dim,
                  dim, dim);
  };
  Range common = here;
  for (int r = 0; r < kRows; ++r) common = intersect(common, visible[r]);
  if (common.begin >= common.end) common = {here.end, here.end};
  const Range before = {here.begin, common.begin}, after = {common.end, here.end};
  for (int r = 0; r < kRows; ++r) add.template operator()<1>(r, intersect(before, visible[r]));
  add.template operator()<kRows>(0, common);
  for (int r = 0; r < kRows; ++r) add.template operator()<1>(r, intersect(after, visible[r]));
}

template <class T>
void attend_segment(const AttentionRows& args, const T* k, const T* v, int index,
                    AttentionState state) {
  alignas(64) float panel[kPanelKeys * kMaxHeadDim + 256];
  alignas(64) float scores[kMaxAttentionRows * kSegmentKeys];
  const int rows = args.num_rows, dim = args.head_dim, first = index * kSegmentKeys;

  Range visible[kMaxAttentionRows], any = {kSegmentKeys, 0};
  for (int r = 0; r < rows; ++r) {
    visible[r] = visible_keys(args, r, first);
    if (visible[r].begin >= visible[r].end) {
      visible[r] = {0, 0};
      continue;
    }
    any = {any.begin < visible[r].begin ? any.begin : visible[r].begin,
           any.end > visible[r].end ? any.end : visible[r].end};
  }
  memset(state.out, 0, sizeof(float) * rows * dim);
  if (any.begin >= any.end) {
    for (int r = 0; r < rows; ++r) state.largest[r] = -__builtin_inff(), state.sum[r] = 0;
    return;
  }

  // All that will be read, in order: keys, values, and the first keys of the next segment.
  const T* row[3 * kSegmentKeys];
  const Range keys = {any.begin & -kPanelKeys, (any.end + kPanelKeys - 1) & -kPanelKeys};
  const T** end = locate(args, v, first, any, locate(args, k, first, any, row));
  const int left = args.positions[rows - 1] + 1 - (first + kSegmentKeys);
  if (left > 0)
    end = locate(args, k, first + kSegmentKeys, {0, left < kPanelKeys ? left : kPanelKeys}, end);
  const T **key_row = row - keys.begin, **value_row = key_row + (keys.end - keys.begin);
  Fetcher<T> fetcher = {row + kPanelKeys, end, dim};

  for (int key = keys.begin; key < keys.end; key += kPanelKeys) {
    for (int i = 0; i < kPanelKeys; i += 16) {
      transpose_rows(key_row + key + i, dim, panel + i * dim, fetcher);
    }
    const auto score = [&](auto& fetcher) {
      in_tiles(rows, [&]<int kRows>(int r) {
        float* to = scores + r * kSegmentKeys + key;
        for (int n = 0; n < kRows; ++n)
          memset(to + n * kSegmentKeys, 0, kPanelKeys * sizeof(float));
        chain<kRows>(args.q + r * dim, dim, KeyPanels{panel, dim, fetcher}, 0, dim, to,
                     kSegmentKeys, kPanelKeys);
      });
    };
    NoFetcher none;
    rows <= kDirectRows ? score(fetcher) : score(none);
  }

  softmax_segment(scores, visible, rows, state);

  const auto add = [&](Range here, const auto& values) {
    in_tiles(rows, [&]<int kRows>(int r) {
      add_values<kRows>(scores + r * kSegmentKeys, visible + r, here, values, dim,
                        state.out + r * dim);
    });
  };
  if (rows <= kDirectRows) return add(any, CacheValues<T>{value_row, &fetcher});
  for (int key = keys.begin; key < keys.end; key += kPanelKeys) {
    for (int i = 0; i < kPanelKeys; ++i) {
      for (int d = 0; d < dim; d += 16)
        store(panel + i * dim + d, load_as_float(value_row[key + i] + d));
    }
    add({key, key + kPanelKeys}, FloatValues{panel - key * dim, dim});
  }
}

// With largest = the larger of the two: sum = total.sum * exp(total.largest - largest) + part.sum *
// exp(part.largest - largest), and out likewise, each product rounded.
void combine(AttentionState total, AttentionState part, int num_rows, int head_dim) {
  for (int r = 0; r < num_rows; ++r) {
    if (part.largest[r] == -__builtin_inff()) continue;
    const float largest = total.largest[r] > part.largest[r] ? total.largest[r] : part.largest[r];
    const float shift[16] = {total.largest[r] - largest, part.largest[r] - largest};
    float scale[16];
    store(scale, exp(load(shift)));
    total.largest[r] = largest;
    total.sum[r] = total.sum[r] * scale[0] + part.sum[r] * scale[1];
    const f32x16 keep = broadcast(scale[0]), add = broadcast(scale[1]);
    for (int d = r * head_dim; d < (r + 1) * head_dim; d += 16) {
      store(total.out + d, load(total.out + d) * keep + load(part.out + d) * add);
    }
  }
}

void divide(AttentionState total, int num_rows, int head_dim) {
  for (int r = 0; r < num_rows; ++r) {
    const f32x16 sum = broadcast(total.sum[r]);
    for (int d = r * head_dim; d < (r + 1) * head_dim; d += 16)
      store(total.out + d, load(total.out + d) / sum);
  }
}

}  // namespace
}  // namespace pagedinfer
