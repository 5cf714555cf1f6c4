// Attention of many query rows over a cache in bfloat16, on AMX tiles of 16 rows of 64 bytes. The
// bits are those of attention.h, whose kernels also compute the segments that have a value that is
// not finite: a tile would multiply it with the p = 0 of rows that do not see it.
//
// Keys are right operands as they lie in the cache: a tile is 32 dimensions of 16 keys. The values
// of a segment are copied, so that a row of a tile is 16 dimensions of a pair of keys, and serve
// all query rows. Blocks of 32 query rows pass by: their scores, which p replaces, stay in the
// first-level cache. Sums are stored between the first multiplications of the next block, so that
// no store waits for its tile.
//
// The template argument Tiles is the processor's tiles (amx_tiles.h) or, in tests, plain loops.
#pragma once

#include "ops/cpu/attention_pieces.h"
#include "ops/cpu/attention_steps.h"
#include "ops/cpu/vector_math.h"

namespace pagedinfer {
namespace {

// Copies 32 numbers of two rows so that those of a column are side by side. Returns whether all are
// finite.
FORCE_INLINE bool interleave(const bf16* even, const bf16* odd, bf16* to) {
#if defined(__AVX512BW__)
  alignas(64) static constexpr auto kOrder = [] {
    struct {
      uint16_t half[2][32];
    } order = {};
    for (int i = 0; i < 64; ++i) order.half[i / 32][i % 32] = uint16_t(i / 2 + i % 2 * 32);
    return order;
  }();
  const __m512i a = _mm512_loadu_si512(even), b = _mm512_loadu_si512(odd);
  for (int i = 0; i < 2; ++i) {
    const __m512i order = _mm512_load_si512(kOrder.half[i]);
    _mm512_storeu_si512(to + 32 * i, _mm512_permutex2var_epi16(a, order, b));
  }
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  return (_mm512_cmpeq_epi16_mask(a & exponent, exponent) |
          _mm512_cmpeq_epi16_mask(b & exponent, exponent)) == 0;
#else
  bool is_finite = true;
  for (int i = 0; i < 32; ++i) {
    to[2 * i] = even[i];
    to[2 * i + 1] = odd[i];
    is_finite &= (even[i].bits & 0x7f80) != 0x7f80 && (odd[i].bits & 0x7f80) != 0x7f80;
  }
  return is_finite;
#endif
}

template <class Tiles>
class TileAttention {
 public:
  // `plain` computes segments with a value that is not finite. REQUIRES: can_attend().
  TileAttention(const AttentionRows& rows, const bf16* k, const bf16* v,
                const AttentionKernels& plain, AttentionState total)
      : rows_(rows), k_(k), v_(v), plain_(plain), total_(total), room_(*(Room*)rows.scratch) {
    static_assert(sizeof(Room) <= (kAttentionScores + kValueKeys * kMaxHeadDim) * sizeof(float));
  }

  // Whether dimensions fill tiles, and keys lie in the cache in groups of the segments' own.
  static bool can_attend(const AttentionRows& rows, const Segments& segments) {
    if (rows.head_dim % kStepColumns != 0 || rows.block_size % kGroupPositions != 0) return false;
    const int oldest = rows.window > 0 ? rows.positions[0] + 1 - rows.window : 0;
    const int begin = segments.first * kSegmentKeys;
    const int first = (begin > oldest ? begin : oldest) / rows.block_size;
    const int last = rows.positions[rows.num_rows - 1] / rows.block_size;
    for (int i = first; i <= last; ++i) {
      if (rows.block_table[i] % kGroupPositions != 0) return false;
    }
    return true;
  }

  void run(const Segments& segments) {
    const Tiles configured;
    pack_queries();
    const int rows = num_blocks() * kBlock;
    for (int r = 0; r < rows; ++r) total_.largest[r] = -__builtin_inff(), total_.sum[r] = 0;
    memset(total_.out, 0, sizeof(float) * rows * dim());
    for (int index = segments.first; index < segments.end; ++index) {
      if (add_segment(index)) continue;
      const AttentionState part = part_state(rows_.scratch);
      plain_.attend(rows_, k_, v_, {index, index + 1, false}, part);
      plain_.combine(total_, part, rows_.num_rows, dim());
      pack_queries();  // the kernel took its room
    }
  }

 private:
  static constexpr int kTile = 16;                           // rows of a tile
  static constexpr int kTileNumbers = kTile * kStepColumns;  // in bfloat16
  static constexpr int kBlock = 2 * kTile;                   // query rows
  static constexpr int kStride = kSegmentKeys + 16;  // of scores, so that rows lie in other sets
  static constexpr int kTogether = 4;                // rows whose chains overlap
  static constexpr int kGroups = kSegmentKeys / kGroupPositions;

  struct Room {
    // p in bfloat16 takes the place of the scores: the 32 keys of a step have 64 bytes of a row.
    alignas(64) float scores[kBlock * kStride];
    alignas(64) float part[2][kBlock * kStepColumns];     // of out
    alignas(64) float largest[kBlock], sum[kBlock];       // of the segment
    alignas(64) float keep[kBlock], add[kBlock];          // factors of what came before and of it
    alignas(64) bf16 values[kSegmentKeys * kMaxHeadDim];  // (pairs of keys, dimensions, 2)
    alignas(64) bf16 q[kMaxAttentionRows * kMaxHeadDim];  // (tiles of rows, steps, 16, 32)
  };

  int dim() const { return rows_.head_dim; }
  int num_blocks() const { return (rows_.num_rows + kBlock - 1) / kBlock; }

  // Packs the query rows. Those beyond the last are +0.
  void pack_queries() {
    const int dim = rows_.head_dim;
    for (int r = 0; r < num_blocks() * kBlock; ++r) {
      bf16* to = room_.q + r / kTile * kTile * dim + r % kTile * kStepColumns;
      for (int d = 0; d < dim; d += kStepColumns, to += kTileNumbers) {
        if (r >= rows_.num_rows) {
          memset((void*)to, 0, kStepColumns * sizeof(bf16));
          continue;
        }
        const float* const q = rows_.q + int64_t(r) * dim + d;
        for (int i = 0; i < kStepColumns; ++i) {
          to[i].bits = uint16_t(__builtin_bit_cast(uint32_t, q[i]) >> 16);
        }
      }
    }
  }

  // Adds a segment to the total, or returns false if a value that a row sees is not finite.
  bool add_segment(int index) {
    const int first = index * kSegmentKeys;
    Range visible[kMaxAttentionRows], any = {0, 0};
    for (int r = 0; r < num_blocks() * kBlock; ++r) {
      visible[r] = r < rows_.num_rows ? visible_keys(rows_, r, first) : Range{0, 0};
      any = joined(any, visible[r]);
    }
    if (any.begin >= any.end) return true;
    const bf16 *group[kGroups], *value[kSegmentKeys];
    for (int i = 0; i < kGroups; ++i) group[i] = k_;  // of keys that no row sees: any numbers
    for_pieces(rows_.block_table, rows_.block_size, first, any, [&](int slot, int key, int count) {
      const int64_t row = kv_row(slot, rows_.kv_head, rows_.kv_heads);
      group[key / kGroupPositions] = k_ + (row - slot % kGroupPositions) * dim();
      for (int i = 0; i < count; ++i) value[key + i] = v_ + (row + i) * dim();
    });
    if (!copy_values(value, any)) return false;
    for (int block = 0; block < num_blocks(); ++block) {
      add_block(block * kBlock, visible + block * kBlock, group);
    }
    return true;
  }

  // Copies whole steps of keys; those that no row sees are +0. Returns false if a number is not
  // finite.
  bool copy_values(const bf16* const* value, Range any) {
    alignas(64) static constexpr bf16 kZeros[kMaxHeadDim] = {};
    const auto row_of = [&](int key) {
      return key >= any.begin && key < any.end ? value[key] : kZeros;
    };
    const int end = (any.end + kStepColumns - 1) & -kStepColumns;
    bool is_finite = true;
    for (int key = any.begin & -kStepColumns; key < end; key += 2) {
      bf16* const to = room_.values + int64_t(key) * dim();
      for (int d = 0; d < dim(); d += kStepColumns) {
        is_finite &= interleave(row_of(key) + d, row_of(key + 1) + d, to + 2 * d);
      }
    }
    return is_finite;
  }

  void add_block(int row, const Range* visible, const bf16* const* group) {
    Range any = {0, 0}, common = {0, kSegmentKeys};
    for (int m = 0; m < kBlock; ++m) {
      any = joined(any, visible[m]);
      common = intersect(common, visible[m]);
    }
    if (any.begin >= any.end) return;
    const int first = any.begin / kStepColumns;
    const int end = (any.end + kStepColumns - 1) / kStepColumns;
    if (common.begin > first * kStepColumns || common.end < end * kStepColumns) {
      add_steps<true>(row, visible, group, first, end);
    } else if (end - first < kSegmentKeys / kStepColumns) {
      add_steps<false>(row, visible, group, first, end);
    } else {  // loops whose length the compiler knows
      add_steps<false>(row, visible, group, 0, kSegmentKeys / kStepColumns);
    }
  }

  // Adds the steps [first, end) of keys. Not kMasked: all rows see all keys of them.
  template <bool kMasked>
  FORCE_INLINE void add_steps(int row, const Range* visible, const bf16* const* group, int first,
                              int end) {
    const int dim = rows_.head_dim;
    multiply_keys(room_.q + row * dim, group, first, end);
    if (rows_.softcap > 0) cap_scores(first, end);
    for (int m = 0; m < kBlock; m += kTogether) softmax<kMasked>(m, visible + m, first, end);
    combine_sums(row);
    float *out = total_.out + row * dim, *part = room_.part[0], *before = room_.part[1];
    for (int d = 0; d < dim; d += kStepColumns) {
      multiply_values(d, first, end, before);  // stores what it found in the tiles
      if (d >= 2 * kStepColumns) combine_values(part, out + d - 2 * kStepColumns);
      float* const exchanged = part;
      part = before;
      before = exchanged;
    }
    if (dim >= 2 * kStepColumns) combine_values(part, out + dim - 2 * kStepColumns);
    exchange<0>(before, kStepColumns), exchange<1>(before, kStepColumns);
    exchange<2>(before, kStepColumns), exchange<3>(before, kStepColumns);
    combine_values(before, out + dim - kStepColumns);
  }

  // Tiles 0 to 3 are sums: two by two tiles, row by row. Stores one and begins the next.
  template <int kSum>
  static FORCE_INLINE void exchange(float* before, int stride) {
    Tiles::template store<kSum>(before + kSum / 2 * kTile * stride + kSum % 2 * 16, stride * 4);
    Tiles::template zero<kSum>();
  }

  // Scores of the steps [first, end) of keys.
  FORCE_INLINE void multiply_keys(const bf16* q, const bf16* const* group, int first, int end) {
    const int steps = rows_.head_dim / kStepColumns;
    const int64_t second = steps * kTileNumbers;  // from one tile of rows to the next
    float* const scores = room_.scores;
    for (int j = first; j < end; ++j) {
      const bf16 *left = group[2 * j], *right = group[2 * j + 1];
      float* const before = scores + (j > first ? j - 1 : first) * kStepColumns;
      exchange<0>(before, kStride);  // the first time anything, which is overwritten
      Tiles::template load<4>(q, 64);
      Tiles::template load_once<6>(left, 64);
      Tiles::template multiply<0, 4, 6>();
      exchange<1>(before, kStride);
      Tiles::template load_once<7>(right, 64);
      Tiles::template multiply<1, 4, 7>();
      exchange<2>(before, kStride);
      Tiles::template load<5>(q + second, 64);
      Tiles::template multiply<2, 5, 6>();
      exchange<3>(before, kStride);
      Tiles::template multiply<3, 5, 7>();
      for (int i = 1; i < steps; ++i) {
        Tiles::template load<4>(q + i * kTileNumbers, 64);
        Tiles::template load_once<6>(left + i * kTileNumbers, 64);
        Tiles::template multiply<0, 4, 6>();
        Tiles::template load_once<7>(right + i * kTileNumbers, 64);
        Tiles::template multiply<1, 4, 7>();
        Tiles::template load<5>(q + second + i * kTileNumbers, 64);
        Tiles::template multiply<2, 5, 6>();
        Tiles::template multiply<3, 5, 7>();
      }
    }
    float* const last = scores + (end - 1) * kStepColumns;
    exchange<0>(last, kStride), exchange<1>(last, kStride);
    exchange<2>(last, kStride), exchange<3>(last, kStride);
  }

  void cap_scores(int first, int end) {
    for (int m = 0; m < kBlock; ++m) {
      for (int i = first * kStepColumns; i < end * kStepColumns; i += 16) {
        float* const at = room_.scores + m * kStride + i;
        store(at, softcap(load(at), broadcast(rows_.softcap)) * broadcast(kLog2E));
      }
    }
  }

  // Replaces the scores of kTogether rows from m on by p.
  template <bool kMasked>
  FORCE_INLINE void softmax(int m, const Range* visible, int first, int end) {
    float* const scores = room_.scores + m * kStride;
    alignas(64) static constexpr int32_t kLanes[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                       8, 9, 10, 11, 12, 13, 14, 15};
    const i32x16 lane = load(kLanes);
    const auto load_scores = [&](int r, int key) INLINE_LAMBDA {
      const f32x16 x = load(scores + r * kStride + key);
      if (!kMasked) return x;
      const i32x16 seen =
          (lane >= broadcast(visible[r].begin - key)) & (lane < broadcast(visible[r].end - key));
      return select(seen, x, broadcast(-__builtin_inff()));
    };
    f32x16 vector[kTogether], shift[kTogether];
    for (int r = 0; r < kTogether; ++r) vector[r] = broadcast(-__builtin_inff());
    for (int key = first * kStepColumns; key < end * kStepColumns; key += 16) {
      unrolled<kTogether>([&]<int r>()
                              INLINE_LAMBDA { vector[r] = max(vector[r], load_scores(r, key)); });
    }
    for (int r = 0; r < kTogether; ++r) {
      const float largest = max_lane(vector[r]);
      room_.largest[m + r] = largest;
      shift[r] = broadcast(largest == -__builtin_inff() ? 0.0f : largest);
      vector[r] = broadcast(0.0f);
    }
    for (int j = first; j < end; ++j) {
      unrolled<kTogether>([&]<int r>() INLINE_LAMBDA {
        const f32x16 low = exp2_of_negative(load_scores(r, j * kStepColumns) - shift[r]);
        const f32x16 high = exp2_of_negative(load_scores(r, j * kStepColumns + 16) - shift[r]);
        vector[r] = (vector[r] + low) + high;
        Tiles::store_rounded(scores + r * kStride + j * 16, low, high);
      });
    }
    for (int r = 0; r < kTogether; ++r) {
      const float sum = tree_sum(vector[r]);
      room_.sum[m + r] = sum;
      if (sum != sum) room_.largest[m + r] = sum;
    }
  }

  // As combine(), for what is not out.
  void combine_sums(int row) {
    const f32x16 nothing = broadcast(-__builtin_inff());
    for (int m = 0; m < kBlock; m += 16) {
      float *const largest = total_.largest + row + m, *const sum = total_.sum + row + m;
      const f32x16 before = load(largest), after = load(room_.largest + m);
      const i32x16 sees_some = after != nothing;
      const f32x16 both = select(sees_some, max(before, after), before);
      const f32x16 keep = select(sees_some, exp2_of_negative(before - both), broadcast(1.0f));
      const f32x16 add = select(sees_some, exp2_of_negative(after - both), broadcast(0.0f));
      store(room_.keep + m, keep);
      store(room_.add + m, add);
      store(largest, both);
      store(sum, load(sum) * keep + load(room_.sum + m) * add);
    }
  }

  // 32 dimensions of the sums of p * value from d on. Stores the sums before to `before`.
  FORCE_INLINE void multiply_values(int d, int first, int end, float* before) {
    const int dim = rows_.head_dim;
    const float* const p = room_.scores;
    const bf16* const values = room_.values + 2 * d;
    const int64_t stride = 4 * dim;
#pragma GCC unroll 8
    for (int j = first; j < end; ++j) {
      const float* const left = p + j * 16;
      const bf16* const right = values + int64_t(j) * kStepColumns * dim;
      if (j == first) exchange<0>(before, kStepColumns);
      Tiles::template load<4>(left, kStride * 4);
      Tiles::template load_once<6>(right, stride);
      Tiles::template multiply<0, 4, 6>();
      if (j == first) exchange<1>(before, kStepColumns);
      Tiles::template load_once<7>(right + 32, stride);
      Tiles::template multiply<1, 4, 7>();
      if (j == first) exchange<2>(before, kStepColumns);
      Tiles::template load<5>(left + kTile * kStride, kStride * 4);
      Tiles::template multiply<2, 5, 6>();
      if (j == first) exchange<3>(before, kStepColumns);
      Tiles::template multiply<3, 5, 7>();
    }
  }

  // As combine(), for 32 dimensions of out.
  FORCE_INLINE void combine_values(const float* part, float* out) const {
    const int dim = rows_.head_dim;
    const float *const keeps = room_.keep, *const adds = room_.add;
#pragma GCC unroll 4
    for (int m = 0; m < kBlock; ++m, out += dim, part += kStepColumns) {
      const f32x16 keep = broadcast(keeps[m]), add = broadcast(adds[m]);
      for (int i = 0; i < kStepColumns; i += 16) {
        store(out + i, load(out + i) * keep + load(part + i) * add);
      }
    }
  }

  const AttentionRows& rows_;
  const bf16 *const k_, *const v_;
  const AttentionKernels& plain_;
  const AttentionState total_;
  Room& room_;
};

}  // namespace
}  // namespace pagedinfer
