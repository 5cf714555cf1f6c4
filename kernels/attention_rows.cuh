// The arithmetic of attention on 16 rows and a tile of keys, done by kParts warps together: each
// has its share of the keys in the product with K and of the dimensions in the product with V. Of a
// 16 x 8 accumulator a lane has two rows, lane / 4 and lane / 4 + 8: element i belongs to row i
// / 2.
#pragma once

#include "kernels/attention_state.h"
#include "kernels/attention_tile.h"
#include "kernels/tensor_core.cuh"

namespace pagedinfer::kernels {
namespace {

constexpr float kNone = -__builtin_huge_valf();

// Calls f(score, which of the lane's two rows, key within the tile) for a part's scores.
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

// The part's 16 by 16 pieces of score = q k^T, which is 0 before. The rows begin at `row` of q.
template <class T, int D, int kParts, int kTiles>
__device__ void score_keys(float (&score)[kTiles][4], const T* q, int row, const T* keys,
                           int part) {
  using Rows = SharedRows<D>;
  const int lane = threadIdx.x % kWarp;
  q += row * Rows::kStride, keys += part * 16 * Rows::kStride;
#pragma unroll
  for (int d = 0; d < D; d += 16) {
    uint32_t left[4];
    load_matrices(left, q + Rows::offset(lane % 16, d / 8 + lane / 16));
    const T* const piece = keys + Rows::offset(lane / 16 * 8 + lane % 8, d / 8 + lane / 8 % 2);
#pragma unroll
    for (int n = 0; n < kTiles / 2; ++n) {
      uint32_t right[4];
      load_matrices(right, piece + n * kParts * 16 * Rows::kStride);
      multiply_add<T>(score[2 * n], left, right[0], right[1]);
      multiply_add<T>(score[2 * n + 1], left, right[2], right[3]);
    }
  }
}

// Gives every part the scores of all of them. All threads of the block take part.
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

// Makes p = 2^(score - largest) of the scores, and multiplies the sums that there are by `keep`
// beforehand. The lanes of a row sum up their own keys only.
template <int kTiles>
__device__ void soften(float (&score)[kTiles][4], AttentionState (&state)[2], float (&keep)[2]) {
  float largest[2] = {kNone, kNone}, shift[2], sum[2] = {0.0f, 0.0f};
  for_each_score<1>(score, 0,
                    [&](float x, int row, int) { largest[row] = fmaxf(largest[row], x); });
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    largest[i] = fmaxf(largest[i], __shfl_xor_sync(~0u, largest[i], 1));
    largest[i] = fmaxf(largest[i], __shfl_xor_sync(~0u, largest[i], 2));
    largest[i] = fmaxf(largest[i], state[i].largest);
    shift[i] = largest[i] == kNone ? 0.0f : largest[i];  // of a row that has seen nothing yet
    keep[i] = exp2_fast(sub_rn(state[i].largest, shift[i]));
    state[i].largest = largest[i];
  }
  for_each_score<1>(score, 0, [&](float& x, int row, int) {
    x = exp2_fast(sub_rn(x, shift[row]));
    sum[row] = add_rn(sum[row], x);
  });
#pragma unroll
  for (int i = 0; i < 2; ++i) state[i].sum = add_rn(mul_rn(state[i].sum, keep[i]), sum[i]);
}

// out = keep out + p v in the part's dimensions, 16 after 16 of them; out has room for as many as
// any part has.
template <class T, int D, int kParts, int kOut, int kTiles>
__device__ void add_values(float (&out)[kOut][4], const float (&keep)[2],
                           const float (&p)[kTiles][4], const T* values, int part) {
  using Rows = SharedRows<D>;
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int n = 0; n < kOut; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[n][i] = mul_rn(out[n][i], keep[i / 2]);
  }
#pragma unroll
  for (int k = 0; k < kTiles / 2; ++k) {
    const float(&low)[4] = p[2 * k];
    const float(&high)[4] = p[2 * k + 1];
    const uint32_t left[4] = {pack_pair<T>(low[0], low[1]), pack_pair<T>(low[2], low[3]),
                              pack_pair<T>(high[0], high[1]), pack_pair<T>(high[2], high[3])};
#pragma unroll
    for (int n = 0; n < kOut / 2; ++n) {
      const int piece = n * kParts + part;
      if (D / 16 % kParts != 0 && piece >= D / 16) continue;  // the same for all of a warp
      uint32_t right[4];
      load_matrices_transposed(
          right, values + k * 16 * Rows::kStride + Rows::offset(lane % 16, 2 * piece + lane / 16));
      multiply_add<T>(out[2 * n], left, right[0], right[1]);
      multiply_add<T>(out[2 * n + 1], left, right[2], right[3]);
    }
  }
}

// Lanes that have the same row, together.
__device__ inline float row_sum(float x) {
  x = add_rn(x, __shfl_xor_sync(~0u, x, 1));
  return add_rn(x, __shfl_xor_sync(~0u, x, 2));
}

}  // namespace
}  // namespace pagedinfer::kernels
