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
// The order of additions is fixed. kNumber: of the sum in the kernel, each has memory of its own.
template <int kNumber>
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

template <class T, int kVec>
__device__ float squares(const Vec<T, kVec>& x, float sum) {
#pragma unroll
  for (int j = 0; j < kVec; ++j) sum += to_float(x.at[j]) * to_float(x.at[j]);
  return sum;
}
template <class T, int kVec>
__device__ Vec<T, kVec> added(const Vec<T, kVec>& x, Vec<T, kVec> y) {
#pragma unroll
  for (int j = 0; j < kVec; ++j) y.at[j] = from_float<T>(to_float(x.at[j]) + to_float(y.at[j]));
  return y;
}
template <class T, int kVec>
__device__ Vec<T, kVec> scaled(Vec<T, kVec> x, float scale, const Vec<float, kVec>& weight,
                               float offset) {
#pragma unroll
  for (int j = 0; j < kVec; ++j) {
    x.at[j] = from_float<T>(to_float(x.at[j]) * scale * (weight.at[j] + offset));
  }
  return x;
}

constexpr int max_threads(bool is_double) { return is_double ? kMaxThreads / 2 : kMaxThreads; }

// With kHeld > 0, registers hold the run, at most kHeld vectors per thread; with 0, a run of any
// width is read again for each use. kDouble: x is normalized before it is added to the residual.
template <class T, int kVec, int kHeld, bool kDouble>
__global__ void __launch_bounds__(max_threads(kDouble)) rms_norm_kernel(const RmsNormArgs a) {
  const unsigned run = blockIdx.x * blockDim.y + threadIdx.y;
  if (run >= a.num_rows * a.runs) return;  // whole warps return; a block with one run never does
  const unsigned runs = static_cast<unsigned>(a.runs);  // 64-bit divisions are slow
  const int64_t row = run / runs, first = run % runs * a.width;
  const T* const x = static_cast<const T*>(a.x.data) + row * a.x.stride + first;
  T* const residual = a.residual.data == nullptr
                          ? nullptr
                          : static_cast<T*>(a.residual.data) + row * a.residual.stride + first;
  T* const out = static_cast<T*>(a.out.data) + row * a.out.stride + first;
  const auto scale_of = [&](float sum) { return 1.0f / sqrtf(sum / float(a.width) + a.eps); };

  // 32-bit: with 64-bit indices nvcc 13.0 stores the held vectors element by element.
  const int begin = threadIdx.x * kVec, step = blockDim.x * kVec;
  float sum = 0.0f;
  if constexpr (kHeld > 0) {
    // Everything is loaded before anything is computed or stored, so that the loads overlap: the
    // compiler moves none across a store or a barrier.
    Vec<T, kVec> value[kHeld], before[kHeld];
    Vec<float, kVec> weight[kHeld], x_weight[kHeld];
    const auto for_each_held = [&](const auto& f) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        if (begin + i * step < a.width) f(i, begin + i * step);
      }
    };
    for_each_held([&](int i, int at) {
      value[i] = load_vec<kVec>(x + at);
      if (residual != nullptr) before[i] = load_vec<kVec>(residual + at);
      weight[i] = load_f32<kVec>(a.weight + at);
      if (kDouble) x_weight[i] = load_f32<kVec>(a.x_weight + at);
    });
    if constexpr (kDouble) {
      float x_sum = 0.0f;
      for_each_held([&](int i, int) { x_sum = squares(value[i], x_sum); });
      const float x_scale = scale_of(run_sum<0>(x_sum));
      for_each_held(
          [&](int i, int) { value[i] = scaled(value[i], x_scale, x_weight[i], a.offset); });
    }
    for_each_held([&](int i, int) {
      if (residual != nullptr) value[i] = added(before[i], value[i]);
      sum = squares(value[i], sum);
    });
    const float scale = scale_of(run_sum<1>(sum));
    for_each_held([&](int i, int at) {
      if (residual != nullptr) store_vec(residual + at, value[i]);
      store_vec(out + at, scaled(value[i], scale, weight[i], a.offset));
    });
  } else {
    float x_scale = 0.0f;
    if constexpr (kDouble) {
      float x_sum = 0.0f;
      for (int64_t i = begin; i < a.width; i += step) {
        x_sum = squares(load_vec<kVec>(x + i), x_sum);
      }
      x_scale = scale_of(run_sum<0>(x_sum));
    }
    for (int64_t i = begin; i < a.width; i += step) {
      auto value = load_vec<kVec>(x + i);
      if (kDouble) value = scaled(value, x_scale, load_f32<kVec>(a.x_weight + i), a.offset);
      if (residual != nullptr) {
        value = added(load_vec<kVec>(residual + i), value);
        store_vec(residual + i, value);
      }
      sum = squares(value, sum);
    }
    const float scale = scale_of(run_sum<1>(sum));
    const T* const summed = residual != nullptr ? residual : x;
    for (int64_t i = begin; i < a.width; i += step) {
      store_vec(out + i,
                scaled(load_vec<kVec>(summed + i), scale, load_f32<kVec>(a.weight + i), a.offset));
    }
  }
}

constexpr int kHeld = 2;

template <class T, bool kDouble>
void launch_type(const RmsNormArgs& a, cudaStream_t stream) {
  constexpr int kVec = kVecElements<T>;
  const int64_t num_runs = a.num_rows * a.runs, vecs = a.width / kVec;
  const bool vectors = in_vectors(a.type, a.x, a.width) && in_vectors(a.type, a.out, a.width) &&
                       is_aligned(a.weight) && is_aligned(a.x_weight) &&
                       (a.residual.data == nullptr || in_vectors(a.type, a.residual, a.width));
  if (!vectors || vecs > kHeld * max_threads(kDouble)) {
    launch_kernel(rms_norm_kernel<T, 1, 0, kDouble>, static_cast<unsigned>(num_runs), 256, 0,
                  stream, a);
  } else if (vecs <= kHeld * kWarp) {
    const unsigned blocks = static_cast<unsigned>((num_runs + kWarpsOfHeads - 1) / kWarpsOfHeads);
    launch_kernel(rms_norm_kernel<T, kVec, kHeld, kDouble>, blocks, dim3(kWarp, kWarpsOfHeads), 0,
                  stream, a);
  } else {
    const int64_t warps = (vecs + kHeld * kWarp - 1) / (kHeld * kWarp);
    launch_kernel(rms_norm_kernel<T, kVec, kHeld, kDouble>, static_cast<unsigned>(num_runs),
                  static_cast<unsigned>(warps * kWarp), 0, stream, a);
  }
}

}  // namespace

void launch_rms_norm(const RmsNormArgs& args, cudaStream_t stream) {
  if (args.num_rows == 0 || args.runs == 0) return;
  with_type(args.type, [&](auto zero) {
    using T = decltype(zero);
    args.x_weight == nullptr ? launch_type<T, false>(args, stream)
                             : launch_type<T, true>(args, stream);
  });
}

}  // namespace pagedinfer::kernels
