// What all launchers share. Plain C++: needs neither nvcc nor the CUDA headers.
//
// Pointers are to device memory unless a comment says otherwise. Rows of a matrix are `stride`
// elements apart, so a block of columns is a matrix too. Every pointer and stride works; rows of a
// multiple of 16 bytes that are aligned to 16 bytes are fast. A launcher queues its kernels on the
// stream. It does not allocate, wait or read device memory; cudaGetLastError() tells of an error.
// Without rows it launches nothing.
#pragma once

#include <cstdint>

struct CUstream_st;
using cudaStream_t = CUstream_st*;

namespace pagedinfer::kernels {

// The type in which numbers are stored. Arithmetic is float32.
enum class Type : uint8_t { kF32, kBF16, kF16 };

constexpr int bytes_of(Type type) { return type == Type::kF32 ? 4 : 2; }

struct Matrix {
  void* data;
  int64_t stride;  // elements
};

}  // namespace pagedinfer::kernels
