// What every launch header shares. Plain C++: needs neither nvcc nor the CUDA headers.
//
// All pointers are to device memory. Rows of a matrix are `stride` elements apart, so a block of
// columns is a matrix too. Any pointer and stride is right; 16-byte aligned rows of a multiple of
// 16 bytes are fast. No launcher allocates, waits, or reads device memory; each queues its kernels
// on the stream and leaves an error of the launch to cudaGetLastError(). No rows: no launch.
#pragma once

#include <cstdint>

struct CUstream_st;
using cudaStream_t = CUstream_st*;

namespace pagedinfer::kernels {

// What numbers are stored as. Arithmetic is float32.
enum class Type : uint8_t { kF32, kBF16, kF16 };

constexpr int bytes_of(Type type) { return type == Type::kF32 ? 4 : 2; }

struct Matrix {
  void* data;
  int64_t stride;  // elements
};

}  // namespace pagedinfer::kernels
