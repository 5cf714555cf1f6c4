// Attention of one tile of rows on tensor cores. Many rows (prompts): bound by mma.sync; few rows
// (decoding): by reading K and V once.
//
// A warp has 16 rows and all keys of a tile of kKeys; the tiles lie at absolute multiples, so that
// a row goes through the same operations whatever shares its thread block. Keys and values come
// through kStages stages of shared memory, filled asynchronously by all warps; those outside of
// what the tile's rows see are zeros there and are not read. A tile that a row does not see
// changes nothing of it: its p is 0 and the scale of what it has is 1. Every kSegmentKeys keys the
// softmax begins anew, and what it had is joined to the total or written as a state.
#pragma once

#include "kernels/attention_launch.h"
#include "kernels/attention_state.h"
#include "kernels/attention_tile.h"
#include "kernels/tensor_core.cuh"

namespace pagedinfer::kernels {
namespace {

constexpr float kNone = -__builtin_huge_valf();

template <int D, int kRowWarps>
struct TileShape {
  // A second warp helps one that computes alone to load; more would cost registers.
  static constexpr int kThreads = kWarp * (kRowWarps < 2 ? 2 : kRowWarps);
  static constexpr int kRows = 16 * kRowWarps;
  static constexpr int kKeys = D > 128 ? 32 : 64;
  static constexpr int kStages = kRowWarps == 1 && D <= 96 ? 3 : 2;
  static constexpr int kStride = D + 8;  // 16 bytes more: ldmatrix without bank conflicts
  static constexpr int kVecs = D / 8;    // of 16 bytes in a row
  static constexpr int kTile = kKeys * kStride;
  // The totals are in registers where these suffice.
  static constexpr bool kTotalsInShared = D > 128;
  static constexpr int kTotals = D / 2;  // of a thread
  static constexpr int kBytes = (kRows * kStride + kStages * 2 * kTile) * 2 +
                                (kTotalsInShared ? kRowWarps * kWarp * kTotals * 4 : 0);
  static_assert(kSegmentKeys % kKeys == 0 && kKeys * kVecs % kThreads == 0);
  static_assert(kStride * 2 % 16 == 0);
};

template <class T, int D, int kRowWarps>
struct TileWork {
  using S = TileShape<D, kRowWarps>;

  const TileArgs& a;
  const Tile& tile;
  const int32_t* block_row;
  int64_t head_base;  // element of the cache at which the head begins
  int kv_head;
  T *q, *stages;  // shared

  __device__ T* keys(int stage) const { return stages + stage * 2 * S::kTile; }
  __device__ T* values(int stage) const { return keys(stage) + S::kTile; }
  __device__ int64_t q_offset(int row, int64_t stride) const {
    const int index = tile.first_row + row;
    return int64_t(tile.start + index / a.group) * stride +
           int64_t(kv_head * a.group + index % a.group) * D;
  }
  __device__ int position(int row) const {  // -1: sees nothing
    if (row >= tile.num_rows) return -1;
    return a.positions[tile.start + (tile.first_row + row) / a.group];
  }

  __device__ void load_q() const {
    for (int i = threadIdx.x; i < S::kRows * S::kVecs; i += S::kThreads) {
      const int row = i / S::kVecs, column = i % S::kVecs * 8;
      const bool valid = row < tile.num_rows;
      const T* from = static_cast<const T*>(a.q);
      copy_async(q + row * S::kStride + column,
                 valid ? from + q_offset(row, a.q_stride) + column : from, valid);
    }
  }

  __device__ void load_keys(int first, int stage) const {
    const T* k = static_cast<const T*>(a.k);
    const T* v = static_cast<const T*>(a.v);
#pragma unroll
    for (int n = 0; n < S::kKeys * S::kVecs / S::kThreads; ++n) {
      const int i = threadIdx.x + n * S::kThreads;
      const int row = i / S::kVecs, column = i % S::kVecs * 8, key = first + row;
      const bool valid = key >= tile.first_key && key < tile.end_key;
      int64_t from = 0;
      if (valid) from = head_base + int64_t(cache_position(block_row, a.walk, key)) * D + column;
      copy_async(keys(stage) + row * S::kStride + column, k + from, valid);
      copy_async(values(stage) + row * S::kStride + column, v + from, valid);
    }
  }
};

// Calls f(score, which of a lane's two rows, key within the tile).
template <int kTiles, class F>
__device__ void for_each_score(float (&score)[kTiles][4], const F& f) {
  const int key = threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) f(score[n][i], i / 2, n * 8 + key + i % 2);
  }
}

template <class T, int D, int kRowWarps>
__global__ void __launch_bounds__(TileShape<D, kRowWarps>::kThreads)
    attention_tile_kernel(const TileArgs a) {
  using S = TileShape<D, kRowWarps>;
  unsigned char* const shared = dynamic_shared();
  const AttentionItem item = a.items[blockIdx.x];
  const int kv_head = blockIdx.y;

  const Tile tile = make_tile(item, a.query_starts, a.positions, a.group, S::kRows, a.window);
  // No segment, no key that a row sees, or a segment before the window, whose state the combine
  // step does not look for.
  if (tile.first_key >= tile.end_key) return;

  T* const q = reinterpret_cast<T*>(shared);
  T* const stages = q + S::kRows * S::kStride;
  float* const shared_totals =
      reinterpret_cast<float*>(stages + S::kStages * 2 * S::kTile) + threadIdx.x;
  const TileWork<T, D, kRowWarps> work = {a,
                                          tile,
                                          a.block_table + int64_t(item.seq) * a.max_blocks,
                                          kv_head * a.num_positions * D,
                                          kv_head,
                                          q,
                                          stages};

  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int row0 = warp * 16 + lane / 4;  // and row0 + 8
  const bool has_rows = warp < kRowWarps && warp * 16 < tile.num_rows;
  const int positions[2] = {has_rows ? work.position(row0) : -1,
                            has_rows ? work.position(row0 + 8) : -1};
  const int firsts[2] = {first_visible(positions[0], a.window),
                         first_visible(positions[1], a.window)};

  AttentionState state[2] = {{kNone, 0.0f}, {kNone, 0.0f}};
  AttentionState total[2] = {{kNone, 0.0f}, {kNone, 0.0f}};
  float out[D / 8][4] = {};
  float register_totals[S::kTotalsInShared ? 1 : S::kTotals];
  const auto total_at = [&](int i) -> float& {
    if constexpr (S::kTotalsInShared) {
      return shared_totals[i * kRowWarps * kWarp];
    } else {
      return register_totals[i];
    }
  };
  if (has_rows) {
#pragma unroll
    for (int i = 0; i < S::kTotals; ++i) total_at(i) = 0.0f;
  }

  const int first_tile = tile.first_key / S::kKeys;
  const int end_tile = ceil_div(tile.end_key, S::kKeys);
  work.load_q();
#pragma unroll
  for (int i = 0; i < S::kStages - 1; ++i) {
    if (first_tile + i < end_tile) work.load_keys((first_tile + i) * S::kKeys, i);
    commit_copies();
  }

  int stage = 0;
  for (int t = first_tile; t < end_tile; ++t) {
    wait_for_copies<S::kStages - 2>();
    __syncthreads();  // tile t is there for all, and nobody reads tile t - 1 any more
    const int filled = stage == 0 ? S::kStages - 1 : stage - 1;
    if (t + S::kStages - 1 < end_tile) {
      work.load_keys((t + S::kStages - 1) * S::kKeys, filled);
    }
    commit_copies();
    const T* const keys = work.keys(stage);
    const T* const values = work.values(stage);
    stage = stage + 1 == S::kStages ? 0 : stage + 1;
    if (!has_rows) continue;

    float score[S::kKeys / 8][4] = {};
#pragma unroll
    for (int d = 0; d < D; d += 16) {
      uint32_t left[4];
      load_matrices(left, q + (warp * 16 + lane % 16) * S::kStride + d + lane / 16 * 8);
#pragma unroll
      for (int n = 0; n < S::kKeys / 16; ++n) {
        uint32_t right[4];
        load_matrices(
            right, keys + (n * 16 + lane / 16 * 8 + lane % 8) * S::kStride + d + lane / 8 % 2 * 8);
        multiply_add<T>(score[2 * n], left, right[0], right[1]);
        multiply_add<T>(score[2 * n + 1], left, right[2], right[3]);
      }
    }

    const int first = t * S::kKeys;
    for_each_score(score, [&](float& x, int, int) { x = mul_rn(x, a.scale_log2); });
    if (!all_visible(first, first + S::kKeys, tile.first_position, tile.last_position, a.window)) {
      for_each_score(score, [&](float& x, int row, int key) {  // no branches: they would cost more
        const bool visible = (first + key >= firsts[row]) & (first + key <= positions[row]);
        x = visible ? x : kNone;
      });
    }
    float largest[2] = {kNone, kNone};
    for_each_score(score, [&](float x, int row, int) { largest[row] = fmaxf(largest[row], x); });
    float shift[2], keep[2], sum[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      largest[i] = fmaxf(largest[i], __shfl_xor_sync(~0u, largest[i], 1));
      largest[i] = fmaxf(largest[i], __shfl_xor_sync(~0u, largest[i], 2));
      largest[i] = fmaxf(largest[i], state[i].largest);
      shift[i] = largest[i] == kNone ? 0.0f : largest[i];  // of a row that has seen nothing yet
      keep[i] = exp2_fast(sub_rn(state[i].largest, shift[i]));
      state[i].largest = largest[i];
    }
#pragma unroll
    for (int n = 0; n < S::kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        score[n][i] = exp2_fast(sub_rn(score[n][i], shift[i / 2]));
        sum[i / 2] = add_rn(sum[i / 2], score[n][i]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) state[i].sum = add_rn(mul_rn(state[i].sum, keep[i]), sum[i]);
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[n][i] = mul_rn(out[n][i], keep[i / 2]);
    }

#pragma unroll
    for (int k = 0; k < S::kKeys / 16; ++k) {
      const float(&low)[4] = score[2 * k];
      const float(&high)[4] = score[2 * k + 1];
      const uint32_t p[4] = {pack_pair<T>(low[0], low[1]), pack_pair<T>(low[2], low[3]),
                             pack_pair<T>(high[0], high[1]), pack_pair<T>(high[2], high[3])};
#pragma unroll
      for (int n = 0; n < D / 16; ++n) {
        uint32_t right[4];
        load_matrices_transposed(
            right, values + (k * 16 + lane % 16) * S::kStride + n * 16 + lane / 16 * 8);
        multiply_add<T>(out[2 * n], p, right[0], right[1]);
        multiply_add<T>(out[2 * n + 1], p, right[2], right[3]);
      }
    }

    const bool segment_ends = (first + S::kKeys) % kSegmentKeys == 0 || t + 1 == end_tile;
    if (!segment_ends) continue;
#pragma unroll
    for (int i = 0; i < 2; ++i) {  // the lanes of a row have had their own keys only
      state[i].sum = add_rn(state[i].sum, __shfl_xor_sync(~0u, state[i].sum, 1));
      state[i].sum = add_rn(state[i].sum, __shfl_xor_sync(~0u, state[i].sum, 2));
    }
    if (item.state >= 0) break;  // the item's only segment
    const CombineScales scales[2] = {combine(total[0], state[0], exp2_fast),
                                     combine(total[1], state[1], exp2_fast)};
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& x = total_at(n * 4 + i);
        x = combined(x, out[n][i], scales[i / 2]);
        out[n][i] = 0.0f;
      }
    }
    state[0] = state[1] = {kNone, 0.0f};
  }
  if (!has_rows) return;

#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = row0 + 8 * i;
    if (row >= tile.num_rows) continue;
    if (item.state >= 0) {
      const int64_t index = (int64_t(item.state) + row) * a.kv_heads + kv_head;
      if (lane % 4 == 0) a.states[index] = state[i];
      float* const to = a.state_outs + index * D + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        *reinterpret_cast<float2*>(to + n * 8) = make_float2(out[n][2 * i], out[n][2 * i + 1]);
      }
      continue;
    }
    T* const to = static_cast<T*>(a.out) + work.q_offset(row, a.out_stride) + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      *reinterpret_cast<uint32_t*>(to + n * 8) =
          pack_pair<T>(normalized(total_at(n * 4 + 2 * i), total[i].sum),
                       normalized(total_at(n * 4 + 2 * i + 1), total[i].sum));
    }
  }
}

template <class T, int D, int kRowWarps>
void launch_shape(const TileArgs& args, cudaStream_t stream) {
  using S = TileShape<D, kRowWarps>;
  const auto kernel = attention_tile_kernel<T, D, kRowWarps>;
  const dim3 grid(args.num_items, args.kv_heads);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes);
  launch_kernel(kernel, grid, S::kThreads, S::kBytes, stream, args);
}

template <int D>
void launch_tiles_of(const TileArgs& args, cudaStream_t stream) {
  const bool small = args.tile_rows == kSmallTileRows;
  if (args.type == Type::kBF16) {
    small ? launch_shape<__nv_bfloat16, D, 1>(args, stream)
          : launch_shape<__nv_bfloat16, D, 4>(args, stream);
  } else {
    small ? launch_shape<__half, D, 1>(args, stream) : launch_shape<__half, D, 4>(args, stream);
  }
}

}  // namespace
}  // namespace pagedinfer::kernels
