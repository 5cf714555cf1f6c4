// Enough of CUDA to run the kernels' source on the CPU, in place of the CUDA headers. The threads
// of a block are fibers that run in random order between synchronization points, so that a missing
// barrier shows as a wrong result. It shows nothing about speed, and computes the tensor cores'
// instructions by their definition in float64.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#define __device__
#define __host__
#define __global__
#define __launch_bounds__(...)
#define __shared__ static  // see shared_variables.h

struct CUstream_st;
using cudaStream_t = CUstream_st*;
struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace emulated {

// Runs the blocks in random order, one at a time. Many stop in their middle while others run. The
// shared memory of each is NaN at first.
void run(const void* kernel, dim3 grid, dim3 threads, int shared_bytes,
         const std::function<void()>& thread);
unsigned char* dynamic_shared();

// Waits until every lane of the warp has called it; `mask` names these lanes. The value of lane i,
// at most 64 bytes, is then at 64 * i in the result, valid until the exchange after the next.
const char* exchange(unsigned mask, const void* mine, size_t bytes);
inline int lane() { return static_cast<int>(threadIdx.x + blockDim.x * threadIdx.y) % 32; }
template <class T>
T from_lane(const char* all, int lane) {
  T value;
  std::memcpy(&value, all + 64 * lane, sizeof value);
  return value;
}

void count();  // an atomic operation comes next

// Starts a copy, or a filling with zeros, that belongs to the thread's open group. It happens at
// any time until it is waited for.
void copy_async(void* to, const void* from, size_t bytes, bool valid);
void commit_copies();  // closes the group
// Waits for all closed groups but the last `max_pending`.
void wait_for_copies(int max_pending);

}  // namespace emulated

void __syncthreads();
template <class T>
T __shfl_sync(unsigned mask, T x, int lane) {
  return emulated::from_lane<T>(emulated::exchange(mask, &x, sizeof x), lane);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int bits) {
  return __shfl_sync(mask, x, emulated::lane() ^ bits);
}
template <class T>
T __shfl_down_sync(unsigned mask, T x, int by, int width = 32) {
  const int lane = emulated::lane();
  return __shfl_sync(mask, x, lane % width + by < width ? lane + by : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, int by) {
  const int lane = emulated::lane();
  return __shfl_sync(mask, x, lane >= by ? lane - by : lane);
}
inline unsigned __ballot_sync(unsigned mask, bool vote) {
  const char* all = emulated::exchange(mask, &vote, sizeof vote);
  unsigned votes = 0;
  for (int i = 0; i < 32; ++i) votes |= unsigned{emulated::from_lane<bool>(all, i)} << i;
  return votes;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
  return c;
}
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
template <class T>
T __ldcg(const T* from) {
  return *from;
}
inline void __threadfence() {}
template <class T>
T atomicAdd(T* at, T x) {
  emulated::count();
  return std::atomic_ref(*at).fetch_add(x, std::memory_order_relaxed);
}
template <class T>
T atomicOr(T* at, T x) {
  return std::atomic_ref(*at).fetch_or(x, std::memory_order_relaxed);
}
template <class T>
T atomicMin(T* at, T x) {
  std::atomic_ref to(*at);
  T before = to.load(std::memory_order_relaxed);
  while (x < before && !to.compare_exchange_weak(before, x, std::memory_order_relaxed)) {
  }
  return before;
}

struct __nv_bfloat16 {
  uint16_t bits = 0;
};
inline float __bfloat162float(__nv_bfloat16 x) {
  const uint32_t wide = uint32_t{x.bits} << 16;
  float y;
  std::memcpy(&y, &wide, 4);
  return y;
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if (x != x) return {0x7fc0};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
struct __half {
  _Float16 value = 0;
};
namespace emulated {
extern const float* const kHalfAsFloat;  // by bits: processors without the instruction are slow
}
inline float __half2float(__half x) {
  uint16_t bits;
  std::memcpy(&bits, &x, 2);
  return emulated::kHalfAsFloat[bits];
}
inline __half __float2half_rn(float x) { return {static_cast<_Float16>(x)}; }
