// Fills rows and hashes their bits. Bound by memory.
#include "kernels/check_rows.h"
#include "kernels/common.cuh"

namespace pagedinfer::kernels {
namespace {

constexpr int kThreads = 128;

// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): every bit depends on every other.
__device__ inline uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

template <class T>
__global__ void __launch_bounds__(kThreads) fill_rows_kernel(const FillRowsArgs a) {
  const int64_t row = blockIdx.x;
  T* const out = static_cast<T*>(a.out.data) + row * a.out.stride;
  const uint64_t key = mixed(a.seed + static_cast<uint64_t>(row % a.period) + 1);
  for (int64_t i = threadIdx.x; i < a.cols; i += kThreads) {
    const auto bits = static_cast<int>(mixed(key + static_cast<uint64_t>(i)) >> 40);
    out[i] = from_float<T>(static_cast<float>(bits - (1 << 23)) * 0x1p-23f * a.factor);
  }
}

template <class Bits>
__global__ void __launch_bounds__(kThreads) check_rows_kernel(const CheckRowsArgs a) {
  __shared__ uint64_t sums[kThreads / kWarp];
  const int64_t row = blockIdx.x;
  const Bits* const x = static_cast<const Bits*>(a.x.data) + row * a.x.stride;
  uint64_t sum = 0;  // in any order
  for (int64_t i = threadIdx.x; i < a.cols; i += kThreads) {
    sum += mixed(mixed(static_cast<uint64_t>(i)) ^ x[i]);
  }
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(~0u, sum, offset);
  }
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  uint64_t hash = 0;
  for (const uint64_t part : sums) hash += part;
  uint64_t& expected = a.hashes[row % a.period];
  if (a.num_different == nullptr) {
    expected = hash;
  } else if (hash != expected) {
    atomicAdd(a.num_different, 1);
  }
}

}  // namespace

void launch_fill_rows(const FillRowsArgs& args, cudaStream_t stream) {
  if (args.num_rows == 0) return;
  with_type(args.type, [&](auto zero) {
    launch_kernel(fill_rows_kernel<decltype(zero)>, dim3(static_cast<unsigned>(args.num_rows)),
                  kThreads, 0, stream, args);
  });
}

void launch_check_rows(const CheckRowsArgs& args, cudaStream_t stream) {
  if (args.num_rows == 0) return;
  const auto kernel =
      bytes_of(args.type) == 4 ? check_rows_kernel<uint32_t> : check_rows_kernel<uint16_t>;
  launch_kernel(kernel, dim3(static_cast<unsigned>(args.num_rows)), kThreads, 0, stream, args);
}

}  // namespace pagedinfer::kernels
