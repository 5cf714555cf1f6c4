// RMSNorm. Bound by memory: a run's elements stay in registers between the sum and the scaling, so
// that each is read once and written once. A narrow run (a head) is computed by a warp, a wide one
// by a thread block.
#include "kernels/common.cuh"
#include "kernels/norm.h"

namespace pagedinfer::kernels {
namespace {

constexpr int kWarpsOfHeads = 4;
constexpr int kMaxThreads = 1024;

// The sum over the threads of a run, in every one of them; threadIdx.x is the number in the run.
// The order of additions is fixed.
__device__ float run_sum(float x) {
  __shared__ float of_warp[kMaxThreads / kWarp];
  x = lane_sum(x);
  if (blockDim.x == kWarp) return x;
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = 0.0f;
  for (int i = 0; i < blockDim.x / kWarp; ++i) x += of_warp[i];
  return x;
}

// With kHeld > 0, registers hold the run, at most kHeld vectors per thread; with 0, a run of any
// width is read twice.
template <class T, int kVec, int kHeld>
__global__ void __launch_bounds__(kMaxThreads) rms_norm_kernel(const RmsNormArgs a) {
  const int64_t run = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (run >= a.num_rows * a.runs) return;  // whole warps return; a block with one run never does
  const int64_t row = run / a.runs, first = run % a.runs * a.width;
  const T* const x = static_cast<const T*>(a.x.data) + row * a.x.stride + first;
  T* const residual = a.residual.data == nullptr
                          ? nullptr
                          : static_cast<T*>(a.residual.data) + row * a.residual.stride + first;
  T* const out = static_cast<T*>(a.out.data) + row * a.out.stride + first;

  // Loads a vector, adds the residual and stores that sum in it, and adds the squares to `sum`.
  const auto load_and_sum = [&](int64_t i, float& sum) {
    auto value = load_vec<kVec>(x + i);
    if (residual != nullptr) {
      const auto before = load_vec<kVec>(residual + i);
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        value.at[j] = from_float<T>(to_float(before.at[j]) + to_float(value.at[j]));
      }
      store_vec(residual + i, value);
    }
#pragma unroll
    for (int j = 0; j < kVec; ++j) sum += to_float(value.at[j]) * to_float(value.at[j]);
    return value;
  };
  // Scales a vector and stores it.
  const auto store_scaled = [&](int64_t i, Vec<T, kVec> value, float scale) {
    const auto weight = load_f32<kVec>(a.weight + i);
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      value.at[j] = from_float<T>(to_float(value.at[j]) * scale * (weight.at[j] + a.offset));
    }
    store_vec(out + i, value);
  };
  const auto scale_of = [&](float sum) { return 1.0f / sqrtf(sum / float(a.width) + a.eps); };

  // 32-bit: with 64-bit indices nvcc 13.0 stores the held vectors element by element.
  const int begin = threadIdx.x * kVec, step = blockDim.x * kVec;
  float sum = 0.0f;
  if constexpr (kHeld > 0) {
    Vec<T, kVec> held[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (begin + i * step < a.width) held[i] = load_and_sum(begin + i * step, sum);
    }
    const float scale = scale_of(run_sum(sum));
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (begin + i * step < a.width) store_scaled(begin + i * step, held[i], scale);
    }
  } else {
    for (int64_t i = begin; i < a.width; i += step) load_and_sum(i, sum);
    const float scale = scale_of(run_sum(sum));
    const T* const summed = residual != nullptr ? residual : x;
    for (int64_t i = begin; i < a.width; i += step) {
      store_scaled(i, load_vec<kVec>(summed + i), scale);
    }
  }
}

constexpr int kHeld = 2;

template <class T>
void launch_type(const RmsNormArgs& a, cudaStream_t stream) {
  constexpr int kVec = kVecElements<T>;
  const int64_t num_runs = a.num_rows * a.runs, vecs = a.width / kVec;
  const bool vectors = in_vectors(a.type, a.x, a.width) && in_vectors(a.type, a.out, a.width) &&
                       is_aligned(a.weight) &&
                       (a.residual.data == nullptr || in_vectors(a.type, a.residual, a.width));
  if (!vectors || vecs > kHeld * kMaxThreads) {
    launch_kernel(rms_norm_kernel<T, 1, 0>, static_cast<unsigned>(num_runs), 256, 0, stream, a);
  } else if (vecs <= kHeld * kWarp) {
    const unsigned blocks = static_cast<unsigned>((num_runs + kWarpsOfHeads - 1) / kWarpsOfHeads);
    launch_kernel(rms_norm_kernel<T, kVec, kHeld>, blocks, dim3(kWarp, kWarpsOfHeads), 0, stream,
                  a);
  } else {
    const int64_t warps = (vecs + kHeld * kWarp - 1) / (kHeld * kWarp);
    launch_kernel(rms_norm_kernel<T, kVec, kHeld>, static_cast<unsigned>(num_runs),
                  static_cast<unsigned>(warps * kWarp), 0, stream, a);
  }
}

}  // namespace

void launch_rms_norm(const RmsNormArgs& args, cudaStream_t stream) {
  if (args.num_rows == 0 || args.runs == 0) return;
  with_type(args.type, [&](auto zero) { launch_type<decltype(zero)>(args, stream); });
}

}  // namespace pagedinfer::kernels
