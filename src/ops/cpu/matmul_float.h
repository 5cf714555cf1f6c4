// Products of float32 numbers, weights of any type widened as they are read: sixteen interleaved
// fma chains over the columns from +0 (lane = column mod 16), the last vector padded with +0 in
// both factors, then the fixed tree.
#pragma once

#include "ops/cpu/matmul_groups.h"
#include "ops/cpu/rows.h"

namespace pagedinfer {
namespace {

constexpr int kDepth = 256;  // columns that are worked on at a time
constexpr int kDotRows = kNativeLanes == 16 ? 6 : kNativeLanes == 8 ? 3 : 2;  // at a time
constexpr int kDotOutputs = kNativeLanes == 16 ? 4 : 2;                       // at a time
constexpr int kDotRowBlock = 64;

// x as (ceil(k / kDepth), num_rows, kDepth), padded with +0.
void pack_float(const PackArgs& args) {
  for (int m = args.first_row; m < args.last_row; ++m) {
    for (int k = 0; k < args.k; k += kDepth) {
      const int left = args.k - k < kDepth ? args.k - k : kDepth;
      float* to = (float*)args.packed + int64_t(k) * args.num_rows + int64_t(m) * kDepth;
      memcpy(to, args.x + m * args.stride + k, left * sizeof(float));
      memset(to + left, 0, (kDepth - left) * sizeof(float));
    }
  }
}

// sums[m][n] grows by the products of `depth` <= kDepth columns: x has rows of kDepth.
template <int kRows, int kOutputs, class T>
void dot_rows(const float* x, const T* weights, int64_t stride, int depth, bool first,
              f32x16 (*sums)[kDotOutputs]) {
  f32x16 sum[kRows][kOutputs];
  for (int m = 0; m < kRows; ++m) {
    for (int n = 0; n < kOutputs; ++n) sum[m][n] = first ? broadcast(0.0f) : sums[m][n];
  }
  const auto step = [&](int k, const auto& load_16) {
    f32x16 w[kOutputs];
    for (int n = 0; n < kOutputs; ++n) w[n] = load_16(weights + n * stride + k);
    for (int m = 0; m < kRows; ++m) {
      const f32x16 factor = load(x + m * kDepth + k);
      for (int n = 0; n < kOutputs; ++n) sum[m][n] = fma(factor, w[n], sum[m][n]);
    }
  };
  int k = 0;
  for (; k + 16 <= depth; k += 16) step(k, [](const T* from) { return load_as_float(from); });
  if (k < depth) step(k, [&](const T* from) { return load_as_float(from, depth - k); });
  for (int m = 0; m < kRows; ++m) {
    for (int n = 0; n < kOutputs; ++n) sums[m][n] = sum[m][n];
  }
}

// y = the trees over the sums, sixteen of them side by side.
void fold(const f32x16 (*sums)[kDotOutputs], int rows, int outputs, float* y, int64_t y_stride) {
  constexpr int kFoldRows = 16 / kDotOutputs;
  for (int first = 0; first < rows; first += kFoldRows) {
    const float* from[16];
    for (int i = 0; i < 16; ++i) {  // a row beyond the last: any sums
      const int m = first + i / kDotOutputs < rows ? first + i / kDotOutputs : first;
      from[i] = (const float*)&sums[m][i % kDotOutputs < outputs ? i % kDotOutputs : 0];
    }
    f32x16 lane[16];
    load_transposed(from, lane);
#pragma GCC unroll 4
    for (int width = 8; width > 0; width /= 2) {
#pragma GCC unroll 8
      for (int i = 0; i < width; ++i) lane[i] = lane[i] + lane[i + width];
    }
    float result[16];
    store(result, lane[0]);
    for (int m = first; m < rows && m < first + kFoldRows; ++m) {
      memcpy(y + m * y_stride, result + (m - first) * kDotOutputs, outputs * sizeof(float));
    }
  }
}

template <int kOutputs, class T>
void dot_block(const MatmulArgs& args, int first_row, int rows, int n) {
  alignas(64) f32x16 sums[kDotRowBlock][kDotOutputs];
  alignas(64) float panel[kOutputs * kDepth];
  const T* weights = (const T*)args.weights + n * args.weight_stride;
  Ahead ahead = {(const char*)(weights + kOutputs * args.weight_stride),
                 int64_t(args.weight_stride * sizeof(T)), int64_t(args.k * sizeof(T))};
  for (int k = 0; k < args.k; k += kDepth) {
    const int depth = args.k - k < kDepth ? args.k - k : kDepth;
    const float* x =
        (const float*)args.packed + int64_t(k) * args.num_rows + int64_t(first_row) * kDepth;
    const auto tiles = [&](const auto* from, int64_t stride) {
      const int lines = kOutputs * kDepth * int(sizeof(T)) / 64 * kDotRows / rows + 1;
      in_groups<kDotRows>(rows, [&]<int kRows>(int m) {
        ahead.lines(lines);
        dot_rows<kRows, kOutputs>(x + m * kDepth, from, stride, depth, k == 0, sums + m);
      });
    };
    if (rows <= kDotRows) {
      tiles(weights + k, args.weight_stride);
    } else {
      for (int i = 0; i < kOutputs; ++i) {
        widen_row(weights + i * args.weight_stride + k, panel + i * kDepth, depth);
      }
      tiles(panel, kDepth);
    }
  }
  fold(sums, rows, kOutputs, args.y + first_row * args.y_stride + n, args.y_stride);
}

template <class T>
void matmul_float(const MatmulArgs& args) {
  const auto outputs = [&]<int kOutputs>(int n) {
    for (int row = args.first_row; row < args.last_row; row += kDotRowBlock) {
      const int rows = args.last_row - row < kDotRowBlock ? args.last_row - row : kDotRowBlock;
      dot_block<kOutputs, T>(args, row, rows, n);
    }
  };
  int n = args.first;
  for (; n + kDotOutputs <= args.last; n += kDotOutputs)
    outputs.template operator()<kDotOutputs>(n);
  for (; n < args.last; ++n) outputs.template operator()<1>(n);
}

}  // namespace
}  // namespace pagedinfer
