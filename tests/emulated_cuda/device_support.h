// What the tests of emulated kernels share: matrices of any type in guarded memory.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "kernels/common.cuh"
#include "tests/support/ops_support.h"

namespace pagedinfer::kernels {

template <class T>
constexpr Type kTypeOf = Type::kF32;
template <>
inline constexpr Type kTypeOf<__nv_bfloat16> = Type::kBF16;
template <>
inline constexpr Type kTypeOf<__half> = Type::kF16;

template <class T>
float rounded(float x) {
  return to_float(from_float<T>(x));
}

// A matrix with gaps between its rows, aligned to 16 bytes or not. The memory around its elements
// is NaN; guards_are_whole() tells whether that is unchanged.
template <class T>
class GuardedMatrix {
 public:
  GuardedMatrix(Random& random, int64_t rows, int64_t cols, bool vectors)
      : rows_(rows),
        cols_(cols),
        stride_(vectors ? (cols + 7) / 8 * 8 + 8 * random.below(3) : cols + random.below(5)),
        offset_(vectors ? 64 : 61 + random.below(3)),
        bytes_(new (std::align_val_t{64}) Bytes[static_cast<size_t>(rows * stride_ + 128)]) {
    std::memset(static_cast<void*>(bytes_), 0xff, size());
  }
  ~GuardedMatrix() { ::operator delete[](bytes_, std::align_val_t{64}); }
  GuardedMatrix(const GuardedMatrix&) = delete;
  GuardedMatrix& operator=(const GuardedMatrix&) = delete;

  void fill(Random& random, float scale = 1) {
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t j = 0; j < cols_; ++j) at(i, j) = from_float<T>(random.normal() * scale);
    }
  }
  T& at(int64_t row, int64_t column) {
    return reinterpret_cast<T*>(bytes_)[offset_ + row * stride_ + column];
  }
  float operator()(int64_t row, int64_t column) { return to_float(at(row, column)); }
  Matrix matrix() { return {reinterpret_cast<T*>(bytes_) + offset_, stride_}; }
  bool guards_are_whole() {
    std::vector<bool> own(static_cast<size_t>(rows_ * stride_ + 128));
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t j = 0; j < cols_; ++j) {
        own[static_cast<size_t>(offset_ + i * stride_ + j)] = true;
      }
    }
    for (size_t i = 0; i < own.size(); ++i) {
      for (const unsigned char byte : bytes_[i].at) {
        if (!own[i] && byte != 0xff) return false;
      }
    }
    return true;
  }

 private:
  struct Bytes {
    alignas(T) unsigned char at[sizeof(T)];
  };
  size_t size() const { return static_cast<size_t>(rows_ * stride_ + 128) * sizeof(T); }

  int64_t rows_, cols_, stride_, offset_;
  Bytes* bytes_;
};

// Memory filled with NaN and aligned to 64 bytes.
class NanBytes {
 public:
  explicit NanBytes(int64_t bytes) : room_(static_cast<size_t>(bytes) + 64, 0xff) {}
  template <class T>
  T* as() {
    return reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(room_.data()) + 63) / 64 * 64);
  }

 private:
  std::vector<unsigned char> room_;
};

}  // namespace pagedinfer::kernels
