// Writes keys and values to the cache and copies blocks within it. Bound by memory.
#include "kernels/common.cuh"
#include "kernels/kv.h"

namespace pagedinfer::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kAhead = 4;  // loads of a thread at once: a block of 16 positions takes two turns

template <class T, int kVec>
__global__ void __launch_bounds__(kThreads) write_kv_kernel(const WriteKvArgs a) {
  const int64_t token = blockIdx.x;
  const int dim = a.cache.head_dim, row = kv_row_elements(dim, sizeof(T));
  const int vecs = dim / kVec, all = a.cache.kv_heads * vecs;
  const int64_t position = a.slot_mapping[token];
  if (position < 0) return;
  const Matrix& from = blockIdx.y == 0 ? a.k : a.v;
  const T* const x = static_cast<const T*>(from.data) + token * from.stride;
  T* const cache = static_cast<T*>(blockIdx.y == 0 ? a.cache.k : a.cache.v);
  for (int i = threadIdx.x; i < all; i += kThreads) {
    const int head = i / vecs, column = i % vecs * kVec;
    store_vec(cache + kv_offset(head, position, a.cache.num_positions, row) + column,
              load_vec<kVec>(x + head * dim + column));
  }
}

// Copies whole rows with their padding, so that every access is a 16-byte vector.
__global__ void __launch_bounds__(kThreads) copy_kv_kernel(const CopyKvArgs a, int row_vecs) {
  using Vec16 = Vec<uint32_t, 4>;
  const int64_t positions = a.cache.num_positions;
  Vec16* const cache = static_cast<Vec16*>(blockIdx.z == 0 ? a.cache.k : a.cache.v);
  const Vec16* const from = cache + kv_offset(blockIdx.y, a.from[blockIdx.x], positions, row_vecs);
  Vec16* const to = cache + kv_offset(blockIdx.y, a.to[blockIdx.x], positions, row_vecs);
  const int count = a.counts[blockIdx.x];
  const int64_t vecs = int64_t{count} * row_vecs;
  for (int64_t first = threadIdx.x; first < vecs; first += kAhead * kThreads) {
    Vec16 part[kAhead];  // loaded first: the compiler moves no load across a store
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i * kThreads < vecs) part[i] = from[first + i * kThreads];
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i * kThreads < vecs) to[first + i * kThreads] = part[i];
    }
  }
  float* const scales = blockIdx.z == 0 ? a.cache.k_scale : a.cache.v_scale;
  if (scales == nullptr) return;
  const float* const from_scale = scales + kv_offset(blockIdx.y, a.from[blockIdx.x], positions, 1);
  float* const to_scale = scales + kv_offset(blockIdx.y, a.to[blockIdx.x], positions, 1);
  for (int i = threadIdx.x; i < count; i += kThreads) to_scale[i] = from_scale[i];
}

}  // namespace

void launch_write_kv(const WriteKvArgs& args, cudaStream_t stream) {
  if (args.num_rows == 0) return;
  const dim3 grid(static_cast<unsigned>(args.num_rows), 2);
  const int dim = args.cache.head_dim;
  const bool vectors = in_vectors(args.type, args.k, dim) && in_vectors(args.type, args.v, dim);
  with_type(args.type, [&](auto zero) {
    using T = decltype(zero);
    if (vectors) {
      launch_kernel(write_kv_kernel<T, kVecElements<T>>, grid, kThreads, 0, stream, args);
    } else {
      launch_kernel(write_kv_kernel<T, 1>, grid, kThreads, 0, stream, args);
    }
  });
}

void launch_copy_kv(const CopyKvArgs& args, cudaStream_t stream) {
  if (args.num_copies == 0) return;
  const int bytes = args.cache.is_int8() ? 1 : bytes_of(args.type);
  const int row_vecs = kv_row_elements(args.cache.head_dim, bytes) * bytes / 16;
  const dim3 grid(args.num_copies, args.cache.kv_heads, 2);
  launch_kernel(copy_kv_kernel, grid, kThreads, 0, stream, args, row_vecs);
}

}  // namespace pagedinfer::kernels
