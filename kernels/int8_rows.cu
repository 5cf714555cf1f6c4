// A warp turns one group of a row into int8: a lane has 8 neighbouring columns of it, which it
// loads at once. The warps of a block have the rows of a panel, so that a block writes whole
// pieces. Bound by memory.
#include "kernels/common.cuh"
#include "kernels/int8.h"
#include "kernels/int8_panels.h"
#include "kernels/int8_rows.h"

namespace pagedinfer::kernels {
namespace {

constexpr int kLaneColumns = kInt8Group / kWarp;

__device__ uint32_t largest_of_warp(uint32_t x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const uint32_t other = __shfl_xor_sync(~0u, x, offset);
    x = other > x ? other : x;
  }
  return x;
}

template <class T, bool kVectors>
__global__ void __launch_bounds__(kWarp* kInt8Rows) quantize_kernel(const QuantizeArgs a) {
  const int64_t panel = blockIdx.x, row = panel * kInt8Rows + threadIdx.y;
  const int64_t column = int64_t{blockIdx.y} * kInt8Group + threadIdx.x * kLaneColumns;
  float x[kLaneColumns] = {};
  if (row < a.num_rows && column < a.cols) {
    const T* const from = static_cast<const T*>(a.x.data) + row * a.x.stride + column;
    if constexpr (kVectors) {
      constexpr int kVec = kVecElements<T>;
      Vec<T, kVec> part[kLaneColumns / kVec];
#pragma unroll
      for (int i = 0; i < kLaneColumns / kVec; ++i) part[i] = load_vec<kVec>(from + i * kVec);
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i) x[i] = to_float(part[i / kVec].at[i % kVec]);
    } else {
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i) {
        if (column + i < a.cols) x[i] = to_float(from[i]);
      }
    }
  }
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < kLaneColumns; ++i) {
    const uint32_t magnitude = magnitude_of(x[i]);
    largest = magnitude > largest ? magnitude : largest;
  }
  const float scale = int8_scale(largest_of_warp(largest));
  if (column < int8_pieces(a.cols) * kInt8Columns) {
    Vec<int8_t, kLaneColumns> numbers;
#pragma unroll
    for (int i = 0; i < kLaneColumns; ++i) numbers.at[i] = to_int8(x[i], scale);
    int8_t* const to = static_cast<int8_t*>(a.out) + panel * int8_numbers_bytes(a.cols);
    store_vec(to + int8_offset(row, column), numbers);
  }
  if (threadIdx.x != 0) return;
  const int64_t panels = int8_panels(a.num_rows);
  float* const scales =
      reinterpret_cast<float*>(static_cast<int8_t*>(a.out) + panels * int8_numbers_bytes(a.cols));
  scales[blockIdx.y * panels * kInt8Rows + row] = scale;
}

constexpr int kEmbedThreads = 256;
constexpr int kFour = 4;  // columns of a thread

template <class T>
__global__ void __launch_bounds__(kEmbedThreads) embed_int8_kernel(const EmbedInt8Args a) {
  const int64_t column = (int64_t{blockIdx.y} * kEmbedThreads + threadIdx.x) * kFour;
  if (column >= a.cols) return;
  const int64_t row = a.tokens[blockIdx.x];
  const int8_t* const panel =
      static_cast<const int8_t*>(a.table) + row / kInt8Rows * int8_weight_panel_bytes(a.cols);
  const float scale =
      reinterpret_cast<const float*>(panel + int8_numbers_bytes(a.cols))[row % kInt8Rows];
  const auto numbers = load_vec<kFour>(panel + int8_offset(row, column));
  T* const out = static_cast<T*>(a.out.data) + blockIdx.x * a.out.stride + column;
#pragma unroll
  for (int i = 0; i < kFour; ++i) {
    const float x = mul_ftz(mul_ftz(to_float(numbers.at[i]), scale), a.scale);
    if (column + i < a.cols) out[i] = from_float<T>(x);
  }
}

}  // namespace

void launch_quantize(const QuantizeArgs& args, cudaStream_t stream) {
  if (args.num_rows == 0 || args.cols == 0) return;
  const dim3 grid(static_cast<unsigned>(int8_panels(args.num_rows)),
                  static_cast<unsigned>(int8_groups(args.cols)));
  const dim3 block(kWarp, kInt8Rows);
  // Lanes that have any column have all of theirs.
  const bool vectors = in_vectors(args.type, args.x, args.cols) && args.cols % kLaneColumns == 0;
  with_type(args.type, [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = vectors ? quantize_kernel<T, true> : quantize_kernel<T, false>;
    launch_kernel(kernel, grid, block, 0, stream, args);
  });
}

void launch_embed_int8(const EmbedInt8Args& args, cudaStream_t stream) {
  if (args.num_rows == 0 || args.cols == 0) return;
  const int64_t threads = (args.cols + kFour - 1) / kFour;
  const dim3 grid(static_cast<unsigned>(args.num_rows),
                  static_cast<unsigned>((threads + kEmbedThreads - 1) / kEmbedThreads));
  with_type(args.type, [&](auto zero) {
    launch_kernel(embed_int8_kernel<decltype(zero)>, grid, kEmbedThreads, 0, stream, args);
  });
}

}  // namespace pagedinfer::kernels
