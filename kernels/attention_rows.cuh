// The arithmetic of attention on the 16 rows of a warp and a tile of keys. Of a 16 x 8 accumulator
// a lane has two rows, lane / 4 and lane / 4 + 8: element i belongs to row i / 2.
#pragma once

#include "kernels/attention_state.h"
#include "kernels/attention_tile.h"
#include "kernels/tensor_core.cuh"

namespace pagedinfer::kernels {
namespace {

constexpr float kNone = -__builtin_huge_valf();

// Calls f(score, which of the lane's two rows, key within the tile).
template <int kTiles, class F>
__device__ void for_each_score(float (&score)[kTiles][4], const F& f) {
  const int key = threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) f(score[n][i], i / 2, n * 8 + key + i % 2);
  }
}

// score = q k^T. The warp's rows begin at `row` of q.
template <class T, int D, int kTiles>
__device__ void score_keys(float (&score)[kTiles][4], const T* q, int row, const T* keys) {
  using Rows = SharedRows<D>;
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int d = 0; d < D; d += 16) {
    uint32_t left[4];
    load_matrices(left, q + Rows::offset(row + lane % 16, d / 8 + lane / 16));
#pragma unroll
    for (int n = 0; n < kTiles / 2; ++n) {
      uint32_t right[4];
      load_matrices(right,
                    keys + Rows::offset(n * 16 + lane / 16 * 8 + lane % 8, d / 8 + lane / 8 % 2));
      multiply_add<T>(score[2 * n], left, right[0], right[1]);
      multiply_add<T>(score[2 * n + 1], left, right[2], right[3]);
    }
  }
}

// Makes p = 2^(score - largest) of the scores, and multiplies the sums that there are by `keep`
// beforehand. The lanes of a row sum up their own keys only.
template <int kTiles>
__device__ void soften(float (&score)[kTiles][4], AttentionState (&state)[2], float (&keep)[2]) {
  float largest[2] = {kNone, kNone}, shift[2], sum[2] = {0.0f, 0.0f};
  for_each_score(score, [&](float x, int row, int) { largest[row] = fmaxf(largest[row], x); });
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    largest[i] = fmaxf(largest[i], __shfl_xor_sync(~0u, largest[i], 1));
    largest[i] = fmaxf(largest[i], __shfl_xor_sync(~0u, largest[i], 2));
    largest[i] = fmaxf(largest[i], state[i].largest);
    shift[i] = largest[i] == kNone ? 0.0f : largest[i];  // of a row that has seen nothing yet
    keep[i] = exp2_fast(sub_rn(state[i].largest, shift[i]));
    state[i].largest = largest[i];
  }
  for_each_score(score, [&](float& x, int row, int) {
    x = exp2_fast(sub_rn(x, shift[row]));
    sum[row] = add_rn(sum[row], x);
  });
#pragma unroll
  for (int i = 0; i < 2; ++i) state[i].sum = add_rn(mul_rn(state[i].sum, keep[i]), sum[i]);
}

// out = keep out + p v.
template <class T, int D, int kTiles>
__device__ void add_values(float (&out)[D / 8][4], const float (&keep)[2],
                           const float (&p)[kTiles][4], const T* values) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
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
    for (int n = 0; n < D / 16; ++n) {
      uint32_t right[4];
      load_matrices_transposed(
          right, values + SharedRows<D>::offset(k * 16 + lane % 16, 2 * n + lane / 16));
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
