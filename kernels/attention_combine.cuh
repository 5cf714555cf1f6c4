// Combines the states of a cut tile. The last thread block to write its states reads all states of
// the tile, in ascending order of their segments, and writes the output. The bits do not depend on
// which block is the last. Bound by reading the states, which the L2 cache still has: a thread
// computes four dimensions of one row and loads kStatesAhead states at once.
#pragma once

#include "kernels/attention_launch.h"
#include "kernels/attention_tile.h"
#include "kernels/tensor_core.cuh"

namespace pagedinfer::kernels {
namespace {

constexpr int kStatesAhead = 8;

// The first element of a tile's row in q or in the output.
template <int D>
__device__ int64_t row_offset(const TileArgs& a, const Tile& tile, int kv_head, int row,
                              int64_t stride) {
  const int index = tile.first_row + row;
  return int64_t(tile.start + index / a.group) * stride +
         int64_t(kv_head * a.group + index % a.group) * D;
}

// In float16 what comes of values in int8 is multiplied by this, as are sums: small values would be
// subnormal otherwise.
template <class T>
constexpr float kInt8Factor = std::is_same_v<T, __half> ? 64.0f : 1.0f;

// Combines the state of a tile's row, in powers of 2, with the sink of its head, if there are
// sinks. Returns the factor of the row's output.
template <class T>
__device__ float add_sink(const TileArgs& a, const Tile& tile, int kv_head, int row,
                          AttentionState& state) {
  if (a.sinks == nullptr) return 1.0f;
  const int head = kv_head * a.group + (tile.first_row + row) % a.group;
  const AttentionState sink = {mul_rn(a.sinks[head], kLog2E),
                               a.k_scale == nullptr ? 1.0f : kInt8Factor<T>};
  return combine(state, sink, exp2_fast).keep;
}

// Each of `count` thread blocks calls this for the same counter. Returns true in all threads of the
// last block. Reads of the L2 cache then see everything that the others wrote before their calls.
// Leaves the counter at 0.
__device__ bool is_last_block(uint32_t* counter, uint32_t count) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // of what the barrier has ordered before: the writes of the whole block
    is_last = atomicAdd(counter, 1u) == count - 1;
    if (is_last) *counter = 0;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

// All threads of the block call this after they have written their states of `item`. The block
// computes the rows of `tile`, a part of the item.
template <class T, int D, int kThreads>
__device__ void combine_if_last(const TileArgs& a, const AttentionItem& item, const Tile& tile,
                                int kv_head) {
  const SegmentRange segments = segments_of_cut(item, a.group, a.window);
  const int64_t at = (int64_t{item.cut} * a.kv_heads + kv_head) * kMaxPartsOfTile + blockIdx.z;
  if (!is_last_block(a.counters + at, segments.end - segments.begin)) return;

  constexpr int kVecs = D / 4;
  const int64_t first_state =
      item.state - int64_t{item.first_segment - segments.begin} * item.seq_rows;
  for (int i = threadIdx.x; i < tile.num_rows * kVecs; i += kThreads) {
    const int row = i / kVecs, column = i % kVecs * 4;
    AttentionState total = {-__builtin_huge_valf(), 0.0f};
    float out[4] = {};
    for (int first = segments.begin; first < segments.end; first += kStatesAhead) {
      float2 part[kStatesAhead];
      float4 part_out[kStatesAhead];
#pragma unroll
      for (int s = 0; s < kStatesAhead; ++s) {
        if (first + s >= segments.end) continue;
        const int64_t state = first_state + int64_t{first + s - segments.begin} * item.seq_rows;
        const int64_t index = (state + row) * a.kv_heads + kv_head;
        part[s] = __ldcg(reinterpret_cast<const float2*>(a.states + index));
        part_out[s] = __ldcg(reinterpret_cast<const float4*>(a.state_outs + index * D + column));
      }
#pragma unroll
      for (int s = 0; s < kStatesAhead; ++s) {
        if (first + s >= segments.end) continue;
        const CombineScales scales = combine(total, {part[s].x, part[s].y}, exp2_fast);
        out[0] = combined(out[0], part_out[s].x, scales);
        out[1] = combined(out[1], part_out[s].y, scales);
        out[2] = combined(out[2], part_out[s].z, scales);
        out[3] = combined(out[3], part_out[s].w, scales);
      }
    }
    const float keep = add_sink<T>(a, tile, kv_head, row, total);
    const auto last = [&](float x) { return normalized(mul_rn(x, keep), total.sum); };
    T* const to =
        static_cast<T*>(a.out) + row_offset<D>(a, tile, kv_head, row, a.out_stride) + column;
    uint32_t* const pairs = reinterpret_cast<uint32_t*>(to);
    pairs[0] = pack_pair<T>(last(out[0]), last(out[1]));
    pairs[1] = pack_pair<T>(last(out[2]), last(out[3]));
  }
}

}  // namespace
}  // namespace pagedinfer::kernels
