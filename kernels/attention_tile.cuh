// Attention of one tile of rows on tensor cores. With many rows (prompts) it is bound by mma.sync,
// with few rows (decodes) by reading K and V once.
//
// Each group of kParts warps computes kBands * 16 rows and loops over tiles of kKeys keys. Tiles of
// keys begin at absolute multiples of kKeys, so that a row goes through the same operations
// whatever shares its thread block. All warps copy keys and values asynchronously through kStages
// buffers in shared memory; keys that no row of the block sees are not read, zeros take their
// place. A tile of keys that a row does not see leaves the row unchanged: its p is 0 and its `keep`
// is 1. Every kSegmentKeys keys the softmax restarts; its state is combined into the total, or
// written out.
//
// Shapes without restarts (FlashAttention-2, Dao 2023) have no totals. Their registers hold two
// bands of rows instead, so that what is read of K and V in shared memory serves twice the
// products. A row's bits then depend on whether its tile is cut or not.
#pragma once

#include "kernels/attention_combine.cuh"
#include "kernels/attention_launch.h"
#include "kernels/attention_rows.cuh"

namespace pagedinfer::kernels {
namespace {

template <int D, int kRowGroups, int kParts_, bool kRestarts_ = true>
struct TileShape {
  static constexpr int kDim = D, kParts = kParts_;
  static constexpr bool kRestarts = kRestarts_;
  static constexpr int kBands = kRestarts || D > 128 ? 1 : 2;
  static constexpr int kThreads = kWarp * kRowGroups * kParts;
  static constexpr int kRows = 16 * kBands * kRowGroups;
  static constexpr int kKeys = D > 128 || (kBands > 1 && D > 80) ? 32 : 64;  // by the registers
  static constexpr int kStages = (kRowGroups == 1 && D <= 96) || (kBands > 1 && D > 80) ? 3 : 2;
  static constexpr int kStride = SharedRows<D>::kStride, kVecs = SharedRows<D>::kVecs;
  static constexpr int kTile = kKeys * kStride;
  // 16 x 8 accumulators of a warp, for the scores and for the output.
  static constexpr int kOwnScores = 2 * ceil_div(kKeys / 16, kParts);
  static constexpr int kOut = 2 * ceil_div(D / 16, kParts);
  // Totals of earlier segments, per thread. They go to shared memory if registers would not
  // suffice.
  static constexpr int kTotals = kRestarts ? 4 * kOut : 0;
  static constexpr bool kTotalsInShared = kTotals > 64;
  static constexpr int kExchange = kParts > 1 ? 16 * kKeys / 4 : 0;  // float4
  static constexpr int kBytes = (kRows * kStride + kStages * 2 * kTile) * 2 + kExchange * 16 +
                                kStages * kKeys * 4 +
                                (kTotalsInShared ? kThreads * kTotals * 4 : 0);
  static_assert(kSegmentKeys % kKeys == 0 && kKeys * kVecs % kThreads == 0 && kKeys <= kThreads);
  static_assert(kStride * 2 % 16 == 0 && (kParts == 1 || kRowGroups == 1));
};

template <class T, class S>
struct TileWork {
  static constexpr int D = S::kDim;

  const TileArgs& a;
  const Tile& tile;
  const int32_t* block_row;
  int64_t head_base;  // first element of the head in the cache
  int kv_head;
  T *q, *stages;       // in shared memory
  int* key_positions;  // in shared memory, (kStages, kKeys)

  __device__ T* keys(int stage) const { return stages + stage * 2 * S::kTile; }
  __device__ T* values(int stage) const { return keys(stage) + S::kTile; }
  __device__ int position(int row) const {  // -1: past the last row, sees no key
    if (row >= tile.num_rows) return -1;
    const int first = tile.first_row / a.group;
    return tile.first_position + (tile.first_row + row) / a.group - first;
  }

  __device__ void load_q() const {
    for (int i = threadIdx.x; i < S::kRows * S::kVecs; i += S::kThreads) {
      const int row = i / S::kVecs, vec = i % S::kVecs;
      const bool valid = row < tile.num_rows;
      const T* from = static_cast<const T*>(a.q);
      copy_async(q + SharedRows<D>::offset(row, vec),
                 valid ? from + row_offset<D>(a, tile, kv_head, row, a.q_stride) + vec * 8 : from,
                 valid);
    }
  }

  // The cache position of this thread's key in the tile of keys that begins at `first`; -1: no row
  // sees it.
  __device__ int key_position(int first) const {
    const int key = first + threadIdx.x;
    const bool seen = threadIdx.x < S::kKeys && key >= tile.first_key && key < tile.end_key;
    return seen ? cache_position(block_row, a.block_divisor, key) : -1;
  }
  __device__ void store_key_position(int stage, int position) const {
    if (threadIdx.x < S::kKeys) key_positions[stage * S::kKeys + threadIdx.x] = position;
  }

  // A 16-byte vector of a tile of keys that this thread copies, and the element of shared memory
  // that it goes to.
  struct Copy {
    int row, vec, to;
  };
  __device__ static Copy copy_of(int n) {
    const int row = threadIdx.x / S::kVecs, vec = threadIdx.x % S::kVecs;
    if constexpr (S::kThreads % (8 * S::kVecs) == 0) {  // all differ by constants
      const int rows = n * (S::kThreads / S::kVecs);
      return {row + rows, vec, SharedRows<D>::offset(row, vec) + rows * S::kStride};
    }
    const int i = threadIdx.x + n * S::kThreads;
    return {i / S::kVecs, i % S::kVecs, SharedRows<D>::offset(i / S::kVecs, i % S::kVecs)};
  }

  // Starts the copies of a tile of keys. REQUIRES: store_key_position() for the stage, then a
  // barrier.
  __device__ void load_keys(int stage) const {
    constexpr int kCopies = S::kKeys * S::kVecs / S::kThreads;
    const T* const k = static_cast<const T*>(a.k) + head_base;
    const T* const v = static_cast<const T*>(a.v) + head_base;
    int positions[kCopies];  // all read first: the compiler moves no read across a copy
#pragma unroll
    for (int n = 0; n < kCopies; ++n) {
      positions[n] = key_positions[stage * S::kKeys + copy_of(n).row];
    }
#pragma unroll
    for (int n = 0; n < kCopies; ++n) {
      const Copy copy = copy_of(n);
      const bool valid = positions[n] >= 0;
      const int64_t from = int64_t(valid ? positions[n] : 0) * D;
      copy_async(keys(stage) + copy.to, k + copy.vec * 8 + from, valid);
      copy_async(values(stage) + copy.to, v + copy.vec * 8 + from, valid);
    }
  }

  // Starts the copies of the queries and of the first kStages - 1 tiles of keys.
  __device__ void begin(int first_tile, int end_tile) const {
    int positions[S::kStages];
#pragma unroll
    for (int i = 0; i < S::kStages; ++i) positions[i] = key_position((first_tile + i) * S::kKeys);
    load_q();
#pragma unroll
    for (int i = 0; i < S::kStages; ++i) store_key_position(i, positions[i]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < S::kStages - 1; ++i) {
      if (first_tile + i < end_tile) load_keys(i);
      commit_copies();
    }
  }
};

// The part of the item that this thread block computes.
template <int kRows>
__device__ Tile own_part(const TileArgs& a, const AttentionItem& item) {
  return make_part(item, blockIdx.z * kRows, kRows, a.group, a.tile_rows, a.window);
}

// Writes the output, or the states of the segment.
template <class T, class S, class TotalAt>
__device__ void store_rows(const TileArgs& a, const float (&out)[S::kBands][S::kOut][4],
                           AttentionState (&state)[S::kBands][2], const AttentionState (&total)[2],
                           const TotalAt& total_at, int kv_head, int part, int group_row) {
  constexpr int D = S::kDim;
  const int lane = threadIdx.x % kWarp;
  // Read again: in the loop, registers are scarce.
  const AttentionItem item = rows_from(a.items[blockIdx.x], blockIdx.z * S::kRows);
  const Tile tile = own_part<S::kRows>(a, a.items[blockIdx.x]);
  const bool is_state = item.state >= 0;
#pragma unroll
  for (int b = 0; b < S::kBands; ++b) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      // What was summed since the last restart: everything, or the state of the segment.
      if (is_state || !S::kRestarts) state[b][i].sum = row_sum(state[b][i].sum);
      const int row = group_row + b * 16 + lane / 4 + 8 * i;
      if (row >= tile.num_rows) continue;
      const int64_t index = (int64_t(item.state) + row) * a.kv_heads + kv_head;
      if (is_state && part == 0 && lane % 4 == 0) a.states[index] = state[b][i];
      float* const state_out = a.state_outs + index * D;
      T* const to = static_cast<T*>(a.out) + row_offset<D>(a, tile, kv_head, row, a.out_stride);
#pragma unroll
      for (int n = 0; n < S::kOut; ++n) {
        const int column = (n / 2 * S::kParts + part) * 16 + n % 2 * 8 + lane % 4 * 2;
        if (column >= D) continue;
        const float* const own = out[b][n] + 2 * i;
        if (is_state) {
          *reinterpret_cast<float2*>(state_out + column) = make_float2(own[0], own[1]);
        } else if constexpr (S::kRestarts) {
          *reinterpret_cast<uint32_t*>(to + column) =
              pack_pair<T>(normalized(total_at(n * 4 + 2 * i), total[i].sum),
                           normalized(total_at(n * 4 + 2 * i + 1), total[i].sum));
        } else {
          *reinterpret_cast<uint32_t*>(to + column) = pack_pair<T>(
              normalized(own[0], state[b][i].sum), normalized(own[1], state[b][i].sum));
        }
      }
    }
  }
  if (is_state) combine_if_last<T, D, S::kThreads>(a, item, tile, kv_head);
}

template <class T, int D, int kRowGroups, int kParts, bool kRestarts>
__global__ void __launch_bounds__(TileShape<D, kRowGroups, kParts, kRestarts>::kThreads,
                                  kRowGroups == 1 && D <= 128 ? 3 : 1)
    attention_tile_kernel(const TileArgs a) {
  using S = TileShape<D, kRowGroups, kParts, kRestarts>;
  constexpr int kBands = S::kBands;
  unsigned char* const shared = dynamic_shared();
  const AttentionItem item = a.items[blockIdx.x];
  const int kv_head = blockIdx.y;
  const Tile tile = own_part<S::kRows>(a, item);
  if (tile.first_key >= tile.end_key) return;  // no rows
  const bool is_state = item.state >= 0;

  T* const q = reinterpret_cast<T*>(shared);
  T* const stages = q + S::kRows * S::kStride;
  float4* const exchange = reinterpret_cast<float4*>(stages + S::kStages * 2 * S::kTile);
  int* const key_positions = reinterpret_cast<int*>(exchange + S::kExchange);
  float* const shared_totals =
      reinterpret_cast<float*>(key_positions + S::kStages * S::kKeys) + threadIdx.x;
  const TileWork<T, S> work = {a,
                               tile,
                               a.block_table + int64_t(item.seq) * a.max_blocks,
                               kv_head * a.num_positions * D,
                               kv_head,
                               q,
                               stages,
                               key_positions};

  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int part = warp % kParts, group_row = warp / kParts * kBands * 16;
  const auto row_of = [&](int band, int i) { return group_row + band * 16 + lane / 4 + 8 * i; };
  const bool has_rows = group_row < tile.num_rows;
  AttentionState state[kBands][2], total[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    total[i] = {kMasked, 0.0f};
#pragma unroll
    for (int b = 0; b < kBands; ++b) {
      state[b][i] = {kMasked, 0.0f};
    }
  }
  float out[kBands][S::kOut][4] = {};
  float register_totals[kRestarts && !S::kTotalsInShared ? S::kTotals : 1];
  const auto total_at = [&](int i) -> float& {
    if constexpr (S::kTotalsInShared) {
      return shared_totals[i * S::kThreads];
    } else {
      return register_totals[i];
    }
  };
#pragma unroll
  for (int i = 0; i < S::kTotals; ++i) total_at(i) = 0.0f;

  const int first_tile = tile.first_key / S::kKeys;
  const int end_tile = ceil_div(tile.end_key, S::kKeys);
  work.begin(first_tile, end_tile);
  int stage = 0;
  for (int t = first_tile; t < end_tile; ++t) {
    wait_for_copies<S::kStages - 2>();
    __syncthreads();  // tile t has arrived for all threads, tile t - 1 is no longer read
    // Loaded now because the copy that follows the next barrier needs it.
    const int next_position = work.key_position((t + S::kStages) * S::kKeys);
    if (t + S::kStages - 1 < end_tile) {
      work.load_keys(stage == 0 ? S::kStages - 1 : stage - 1);
    }
    commit_copies();
    if (has_rows) {
      const int first = t * S::kKeys, end = first + S::kKeys;
      const auto compute_scores = [&](auto& own) {
        score_keys<T, D, kParts>(own, q, group_row, work.keys(stage), part);
        const bool all = all_visible(first, end, tile.first_position, tile.last_position, a.window);
#pragma unroll
        for (int b = 0; b < kBands; ++b) {
          for_each_score<kParts>(own[b], part,
                                 [&](float& x, int, int) { x = mul_rn(x, a.scale_log2); });
          if (all) continue;
          // Looked up here because registers are scarce and masked tiles are few.
          const int positions[2] = {work.position(row_of(b, 0)), work.position(row_of(b, 1))};
          const int firsts[2] = {first_visible(positions[0], a.window),
                                 first_visible(positions[1], a.window)};
          for_each_score<kParts>(own[b], part, [&](float& x, int row, int key) {
            // Bitwise, without branches: a branch per score would cost more than all the rest.
            const bool visible = (first + key >= firsts[row]) & (first + key <= positions[row]);
            x = visible ? x : kMasked;
          });
        }
      };
      float score[kBands][S::kKeys / 8][4] = {}, keep[kBands][2];
      if constexpr (kParts == 1) {
        compute_scores(score);
      } else {
        float own[kBands][S::kOwnScores][4] = {};
        if (part < S::kKeys / 16) compute_scores(own);
        share_scores<kParts>(score[0], own[0], part, exchange);
      }
#pragma unroll
      for (int b = 0; b < kBands; ++b) softmax_update(score[b], state[b], keep[b]);
      add_values<T, D, kParts>(out, keep, score, work.values(stage), part);

      if (kRestarts && !is_state && (end % kSegmentKeys == 0 || t + 1 == end_tile)) {
        CombineScales scales[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          state[0][i].sum = row_sum(state[0][i].sum);
          scales[i] = combine(total[i], state[0][i], exp2_fast);
          state[0][i] = {kMasked, 0.0f};
        }
#pragma unroll
        for (int n = 0; n < S::kTotals / 4; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float& x = total_at(n * 4 + i);
            x = combined(x, out[0][n][i], scales[i / 2]);
            out[0][n][i] = 0.0f;
          }
        }
      }
    }
    work.store_key_position(stage, next_position);  // those of tile t are no longer read
    stage = stage + 1 == S::kStages ? 0 : stage + 1;
  }

  store_rows<T, S>(a, out, state, total, total_at, kv_head, part, group_row);
}

template <class T, int D, int kRowGroups, int kParts, bool kRestarts>
void launch_shape(const TileArgs& args, cudaStream_t stream) {
  using S = TileShape<D, kRowGroups, kParts, kRestarts>;
  static_assert(kLargeTileRows % S::kRows == 0);
  const auto kernel = attention_tile_kernel<T, D, kRowGroups, kParts, kRestarts>;
  const dim3 grid(args.num_items, args.kv_heads, args.tile_rows / S::kRows);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes);
  launch_kernel(kernel, grid, S::kThreads, S::kBytes, stream, args);
}

template <class T, int D>
void launch_tiles_of(const TileArgs& args, cudaStream_t stream) {
  // 128 rows per block if possible: with 64 the L2 cache delivers twice the bytes and becomes the
  // limit. Not with 64 dimensions, of which more blocks fit at 64 rows; not with 80, which do not
  // divide among 256 threads; not with 256, which leave too few registers.
  constexpr int kRowGroups = D == 96 || D == 128 ? 8 : 4;
  static_assert(TileShape<D, 1, 4>::kBytes <= 99 << 10);  // every device has these
  const auto has_room = [&](int bytes) {
    return args.tile_rows == kLargeTileRows && bytes <= args.max_shared_bytes;
  };
  if (!args.restarts && has_room(TileShape<D, 4, 1, false>::kBytes)) {
    launch_shape<T, D, 4, 1, false>(args, stream);
  } else if (has_room(TileShape<D, kRowGroups, 1>::kBytes)) {
    launch_shape<T, D, kRowGroups, 1, true>(args, stream);
  } else {
    launch_shape<T, D, 1, 4, true>(args, stream);
  }
}
template <int D>
void launch_tiles_of(const TileArgs& args, cudaStream_t stream) {
  args.type == Type::kBF16 ? launch_tiles_of<__nv_bfloat16, D>(args, stream)
                           : launch_tiles_of<__half, D>(args, stream);
}

}  // namespace
}  // namespace pagedinfer::kernels
