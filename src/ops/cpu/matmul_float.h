// Products of float32 numbers with weights of any type, which are converted as they are read:
// sixteen interleaved fma chains from +0 over the columns (lane = column mod 16), where the last
// vector is padded with +0 in both factors, then tree_sum().
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/prefetch.h"
#include "ops/cpu/row_tiles.h"
#include "ops/cpu/rows.h"

namespace pagedinfer {
namespace {

constexpr int kDepth = 512;  // columns that are multiplied at a time
constexpr int kDotRows = kNativeLanes == 16 ? 6 : kNativeLanes == 8 ? 3 : 2;  // at a time
constexpr int kDotOutputs = kNativeLanes == 16 ? 4 : 2;                       // at a time
constexpr int kMinDotRowBlock = 30, kMaxDotRowBlock = 60;

// The number of columns that are stored together if `left` remain: whole vectors, padded with +0.
FORCE_INLINE int padded_depth(int left) { return left < kDepth ? (left + 15) / 16 * 16 : kDepth; }

// Stores x as (ceil(k / kDepth), num_rows, padded_depth).
void pack_float(const PackArgs& args) {
  for (int m = args.first_row; m < args.last_row; ++m) {
    const float* x = args.x + (m - args.first_row) * args.stride;
    for (int k = args.first_column; k < args.last_column; k += kDepth, x += kDepth) {
      const int left = args.k - k, depth = padded_depth(left);
      float* to = (float*)args.packed + int64_t(k) * args.num_rows + int64_t(m) * depth;
      for (int i = 0; i < depth; i += 16) store(to + i, load_part(x + i, left - i));
    }
  }
}

// Adds the products of `depth` columns to kOutputs of the 16 outputs of sums (rows, 16 outputs, 16
// lanes).
template <int kRows, int kOutputs, class T>
void dot_rows(const float* x, const T* weights, int64_t stride, int depth, bool first,
              float* sums) {
  const int x_stride = padded_depth(depth);
  Native sum[kRows][kOutputs][kParts];
  const auto at = [&](int m, int n, int p) { return sums + (m * 16 + n) * 16 + p * kNativeLanes; };
  for (int m = 0; m < kRows; ++m) {
    for (int n = 0; n < kOutputs; ++n) {
      for (int p = 0; p < kParts; ++p) sum[m][n][p] = first ? Native{} : load_native(at(m, n, p));
    }
  }
  const auto step = [&](int k, const auto& load_16) {
    for (int p = 0; p < kParts; ++p) {
      Native w[kOutputs];
      for (int n = 0; n < kOutputs; ++n) w[n] = load_16(weights + n * stride + k).part[p];
      for (int m = 0; m < kRows; ++m) {
        const Native factor = load_native(x + m * x_stride + k + p * kNativeLanes);
        for (int n = 0; n < kOutputs; ++n) sum[m][n][p] = fma_native(factor, w[n], sum[m][n][p]);
      }
    }
  };
  int k = 0;
  for (; k + 16 <= depth; k += 16) step(k, [](const T* from) { return load_as_float(from); });
  if (k < depth) step(k, [&](const T* from) { return load_as_float(from, depth - k); });
  for (int m = 0; m < kRows; ++m) {
    for (int n = 0; n < kOutputs; ++n) {
      for (int p = 0; p < kParts; ++p) store_native(at(m, n, p), sum[m][n][p]);
    }
  }
}

// y (rows, outputs) = tree_sum() of each of sums (rows, 16 outputs, 16 lanes).
void fold(const float* sums, int rows, int outputs, float* y, int64_t y_stride) {
  for (int m = 0; m < rows; ++m, sums += 256, y += y_stride) {
    const float* from[16];
    for (int n = 0; n < 16; ++n) from[n] = sums + (n < outputs ? n : 0) * 16;
    f32x16 lane[16];
    load_transposed(from, lane);
#pragma GCC unroll 4
    for (int width = 8; width > 0; width /= 2) {
#pragma GCC unroll 8
      for (int i = 0; i < width; ++i) lane[i] = lane[i] + lane[i + width];
    }
    store_part(y, outputs, lane[0]);
  }
}

// sums (rows, 16 outputs, 16 lanes) = the products of rows of x with the kOutputs outputs from n.
template <int kOutputs, class T>
void dot_outputs(const MatmulArgs& args, int first_row, int rows, int n, float* sums) {
  alignas(64) float panel[kOutputs * kDepth];
  const T* weights = (const T*)args.weights + n * args.weight_stride;
  RowPrefetcher prefetcher = {(const char*)(weights + kOutputs * args.weight_stride),
                              int64_t(args.weight_stride * sizeof(T)), int64_t(args.k * sizeof(T))};
  for (int k = 0; k < args.k; k += kDepth) {
    const int depth = args.k - k < kDepth ? args.k - k : kDepth, x_stride = padded_depth(depth);
    const float* x =
        (const float*)args.packed + int64_t(k) * args.num_rows + int64_t(first_row) * x_stride;
    const auto tiles = [&](const auto* from, int64_t stride) {
      const int lines = kOutputs * depth * int(sizeof(T)) / 64 * kDotRows / rows + 1;
      in_equal_tiles<kDotRows>(rows, [&]<int kRows>(int m) {
        prefetcher.fetch(lines);
        dot_rows<kRows, kOutputs>(x + m * x_stride, from, stride, depth, k == 0, sums + m * 256);
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
}

template <class T>
void matmul_float(const MatmulArgs& args) {
  // The block of x stays in the second-level cache for all outputs.
  const int fitting = kBlockNumbers / args.k / kDotRows * kDotRows;
  const int block = fitting < kMinDotRowBlock   ? kMinDotRowBlock
                    : fitting > kMaxDotRowBlock ? kMaxDotRowBlock
                                                : fitting;
  for (int row = args.first_row; row < args.last_row; row += block) {
    const int rows = args.last_row - row < block ? args.last_row - row : block;
    for (int n = args.first; n < args.last; n += 16) {
      alignas(64) float sums[kMaxDotRowBlock * 256];
      const int outputs = args.last - n < 16 ? args.last - n : 16;
      int i = 0;
      for (; i + kDotOutputs <= outputs; i += kDotOutputs) {
        dot_outputs<kDotOutputs, T>(args, row, rows, n + i, sums + i * 16);
      }
      for (; i < outputs; ++i) dot_outputs<1, T>(args, row, rows, n + i, sums + i * 16);
      fold(sums, rows, outputs, args.y + row * args.y_stride + n, args.y_stride);
    }
  }
}

}  // namespace
}  // namespace pagedinfer
