// Locates the keys and values of a segment in the cache.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/kv_layout.h"
#include "ops/cpu/prefetch.h"

namespace pagedinfer {
namespace {

template <class T>
constexpr bool kHasScales = sizeof(T) == 1;  // each row of the cache has a scale

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
  int64_t row[kHasScales<T> ? kSegmentKeys : 1];  // of the cache, by piece: its first
  const T* value[kSegmentKeys];                   // by key
  int num_pieces = 0;
  // The memory that is read, in the order of reading. Then the first keys of the next segment or,
  // after the last one, the keys of rows.after and their values.
  static_assert(2 * kMaxKeysAfter <= kSegmentKeys);
  Span span[(kHasScales<T> ? 5 : 3) * kSegmentKeys];
  int num_spans = 0;
};

// Divides a range of the segment's keys into runs of adjacent cache positions that do not cross a
// group. Calls f(slot, key, count) with the first slot and key of each.
template <class F>
FORCE_INLINE void for_pieces(const int* block_table, int block_size, int first, Range keys,
                             const F& f) {
  int block = (first + keys.begin) / block_size, within = (first + keys.begin) % block_size;
  for (int key = keys.begin; key < keys.end; within = 0) {
    int slot = block_table[block] + within, count = block_size - within;
    while (++block, key + count < keys.end && block_table[block] == slot + count) {
      count += block_size;
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
  const auto add_group_of = [&](int64_t row) {
    add_span(k + row / kGroupPositions * kGroupPositions * dim, kGroupPositions);
  };
  const auto row_of = [&](int slot) { return kv_row(slot, rows.kv_head, rows.kv_heads); };
  const auto add_piece = [&](int slot, int key, int count) {
    const int lane = slot % kGroupPositions;
    const int64_t row = row_of(slot);
    const T* group = k + (row - lane) * dim;
    if constexpr (kHasScales<T>) located.row[located.num_pieces] = row;
    located.piece[located.num_pieces++] = {group, lane, count, key};
    for (int i = 0; i < count; ++i) located.value[key + i] = v + (row + i) * dim;
    add_group_of(row);
  };
  for_pieces(rows.block_table, rows.block_size, first, keys, add_piece);
  if constexpr (kHasScales<T>) {
    const float* const both[] = {rows.k_scale, rows.v_scale};
    for (const float* scales : both) {
      for (int i = 0; i < located.num_pieces; ++i) {
        const int64_t group = located.row[i] - located.piece[i].lane;
        located.span[located.num_spans++] = {(const char*)(scales + group),
                                             kGroupPositions * int(sizeof(float))};
      }
    }
  }
  for (int i = 0; i < located.num_pieces; ++i) {
    add_span(located.value[located.piece[i].key], located.piece[i].count);
  }
  const int left = rows.positions[rows.num_rows - 1] + 1 - first;
  if (left > kSegmentKeys) {
    const Range next = {kSegmentKeys, left < 2 * kSegmentKeys ? left : 2 * kSegmentKeys};
    for_pieces(rows.block_table, rows.block_size, first, next,
               [&](int slot, int, int) { add_group_of(row_of(slot)); });
    return;
  }
  const auto for_after = [&](const auto& f) {
    for_pieces(rows.after.block_table, rows.block_size, 0, {rows.after.begin, rows.after.end},
               [&](int slot, int, int count) {
                 f(kv_row(slot, rows.after.kv_head, rows.kv_heads), count);
               });
  };
  for_after([&](int64_t row, int) { add_group_of(row); });
  for_after([&](int64_t row, int count) { add_span(v + row * dim, count); });
}

// The keys that a row sees in the segment that begins at key `first`, relative to `first`.
FORCE_INLINE Range visible_keys(const AttentionRows& rows, int row, int first) {
  const int end = rows.positions[row] + 1;
  const int begin = rows.window > 0 && end > rows.window ? end - rows.window : 0;
  const Range visible = intersect({begin - first, end - first}, {0, kSegmentKeys});
  return visible.begin < visible.end ? visible : Range{0, 0};
}

// The least range with both.
FORCE_INLINE Range joined(Range a, Range b) {
  if (a.begin >= a.end) return b;
  if (b.begin >= b.end) return a;
  return {a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}

}  // namespace
}  // namespace pagedinfer
