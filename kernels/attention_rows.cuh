// The arithmetic of attention on kBands bands of 16 rows and a tile of keys, by kParts warps
// together. The warps divide the keys in the product with K, and the dimensions in the product with
// V; `part` is the number of the warp. K and V are read once for all bands. A lane
// holds parts of two rows of a 16 x 8 accumulator, lane / 4 and lane / 4 + 8: its elements 0 and 1
// belong to the first ("row 0"), 2 and 3 to the second ("row 1").
#pragma once

#include "kernels/attention_state.h"
#include "kernels/attention_tile.h"
#include "kernels/tensor_core.cuh"

namespace pagedinfer::kernels {
namespace {

constexpr float kMasked = -__builtin_huge_valf();  // the score of a key that a row does not see

// Calls f(score, row, key) for each score that the lane holds of a part of a band: row is 0 or 1,
// key is the number of the key in the tile.
template <int kParts, int kTiles, class F>
__device__ void for_each_score(float (&score)[kTiles][4], int part, const F& f) {
  const int first = part * 16 + threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      f(score[n][i], i / 2, n / 2 * kParts * 16 + first + n % 2 * 8 + i % 2);
    }
  }
}

// score = q k^T for the part's keys, 16 by 16. The rows begin at row `row` of q. REQUIRES: score is
// 0.
template <class T, int D, int kParts, int kBands, int kTiles>
__device__ void score_keys(float (&score)[kBands][kTiles][4], const T* q, int row, const T* keys,
                           int part) {
  using Rows = SharedRows<D>;
  const int lane = threadIdx.x % kWarp;
  q += row * Rows::kStride, keys += part * 16 * Rows::kStride;
#pragma unroll
  for (int d = 0; d < D; d += 16) {
    uint32_t left[kBands][4];
#pragma unroll
    for (int b = 0; b < kBands; ++b) {
      load_matrices(left[b],
                    q + b * 16 * Rows::kStride + Rows::offset(lane % 16, d / 8 + lane / 16));
    }
    const T* const piece = keys + Rows::offset(lane / 16 * 8 + lane % 8, d / 8 + lane / 8 % 2);
#pragma unroll
    for (int n = 0; n < kTiles / 2; ++n) {
      uint32_t right[4];
      load_matrices(right, piece + n * kParts * 16 * Rows::kStride);
#pragma unroll
      for (int b = 0; b < kBands; ++b) {
        multiply_add<T>(score[b][2 * n], left[b], right[0], right[1]);
        multiply_add<T>(score[b][2 * n + 1], left[b], right[2], right[3]);
      }
    }
  }
}

// Gives every part the scores of all parts, by way of shared memory. All threads of the block call
// it.
template <int kParts, int kTiles, int kOwn>
__device__ void share_scores(float (&score)[kTiles][4], const float (&own)[kOwn][4], int part,
                             float4* exchange) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    const int at = (n / 2 * kParts + part) * 2 + n % 2;
    if (at >= kTiles) continue;
    exchange[at * kWarp + lane] = make_float4(own[n][0], own[n][1], own[n][2], own[n][3]);
  }
  __syncthreads();
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const float4 x = exchange[n * kWarp + lane];
    score[n][0] = x.x, score[n][1] = x.y, score[n][2] = x.z, score[n][3] = x.w;
  }
}

// One step of the online softmax (Milakov and Gimelshein 2018): raises state.max to the scores of
// this tile, replaces each score with p = 2^(score - max), and updates state.sum. `keep` is the
// factor that rescales what was summed under the old max. A lane sums its own keys only; row_sum()
// completes the sum.
template <int kTiles>
__device__ void softmax_update(float (&score)[kTiles][4], AttentionState (&state)[2],
                               float (&keep)[2]) {
  float row_max[2] = {kMasked, kMasked}, shift[2], sum[2] = {0.0f, 0.0f};
  for_each_score<1>(score, 0,
                    [&](float x, int row, int) { row_max[row] = fmaxf(row_max[row], x); });
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    row_max[i] = fmaxf(row_max[i], __shfl_xor_sync(~0u, row_max[i], 1));
    row_max[i] = fmaxf(row_max[i], __shfl_xor_sync(~0u, row_max[i], 2));
    row_max[i] = fmaxf(row_max[i], state[i].max);
    shift[i] = row_max[i] == kMasked ? 0.0f : row_max[i];  // 0: the row has seen no key yet
    keep[i] = exp2_fast(sub_rn(state[i].max, shift[i]));
    state[i].max = row_max[i];
  }
  for_each_score<1>(score, 0, [&](float& x, int row, int) {
    x = exp2_fast(sub_rn(x, shift[row]));
    sum[row] = add_rn(sum[row], x);
  });
#pragma unroll
  for (int i = 0; i < 2; ++i) state[i].sum = add_rn(mul_rn(state[i].sum, keep[i]), sum[i]);
}

// out = keep * out + p v in the part's dimensions, 16 at a time. `out` has room for the part with
// the most dimensions.
template <class T, int D, int kParts, int kBands, int kOut, int kTiles>
__device__ void add_values(float (&out)[kBands][kOut][4], const float (&keep)[kBands][2],
                           const float (&p)[kBands][kTiles][4], const T* values, int part) {
  using Rows = SharedRows<D>;
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int b = 0; b < kBands; ++b) {
#pragma unroll
    for (int n = 0; n < kOut; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[b][n][i] = mul_rn(out[b][n][i], keep[b][i / 2]);
    }
  }
#pragma unroll
  for (int k = 0; k < kTiles / 2; ++k) {
    uint32_t left[kBands][4];
#pragma unroll
    for (int b = 0; b < kBands; ++b) {
      const float(&low)[4] = p[b][2 * k];
      const float(&high)[4] = p[b][2 * k + 1];
      left[b][0] = pack_pair<T>(low[0], low[1]), left[b][1] = pack_pair<T>(low[2], low[3]);
      left[b][2] = pack_pair<T>(high[0], high[1]), left[b][3] = pack_pair<T>(high[2], high[3]);
    }
#pragma unroll
    for (int n = 0; n < kOut / 2; ++n) {
      const int piece = n * kParts + part;
      if (D / 16 % kParts != 0 && piece >= D / 16) continue;  // all lanes of a warp agree
      uint32_t right[4];
      load_matrices_transposed(
          right, values + k * 16 * Rows::kStride + Rows::offset(lane % 16, 2 * piece + lane / 16));
#pragma unroll
      for (int b = 0; b < kBands; ++b) {
        multiply_add<T>(out[b][2 * n], left[b], right[0], right[1]);
        multiply_add<T>(out[b][2 * n + 1], left[b], right[2], right[3]);
      }
    }
  }
}

// The sum over the four lanes that hold the same row.
__device__ inline float row_sum(float x) {
  x = add_rn(x, __shfl_xor_sync(~0u, x, 1));
  return add_rn(x, __shfl_xor_sync(~0u, x, 2));
}

}  // namespace
}  // namespace pagedinfer::kernels
