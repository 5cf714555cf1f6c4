// Owners of CUDA handles and memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "ops/cuda/device_error.h"

namespace pagedinfer {

// Owns a handle or pointer; kFree releases it.
template <class T, auto kFree>
class CudaOwner {
 public:
  CudaOwner() = default;
  explicit CudaOwner(T owned) : owned_(owned) {}
  ~CudaOwner() {
    if (owned_ != T{}) static_cast<void>(kFree(owned_));
  }
  CudaOwner(CudaOwner&& other) noexcept : owned_(std::exchange(other.owned_, T{})) {}
  CudaOwner& operator=(CudaOwner&& other) noexcept {
    std::swap(owned_, other.owned_);
    return *this;
  }
  T get() const { return owned_; }

 private:
  T owned_ = {};
};

using DeviceBytes = CudaOwner<char*, cudaFree>;
using PinnedBytes = CudaOwner<char*, cudaFreeHost>;
using CudaStream = CudaOwner<cudaStream_t, cudaStreamDestroy>;
using CudaEvent = CudaOwner<cudaEvent_t, cudaEventDestroy>;

inline DeviceBytes take_device(int64_t bytes, const char* what) {
  void* p = nullptr;
  check_cuda(cudaMalloc(&p, static_cast<size_t>(bytes)), what);
  return DeviceBytes(static_cast<char*>(p));
}
// Pinned host memory, which the device can read and write on its own.
inline PinnedBytes take_pinned(int64_t bytes, const char* what) {
  void* p = nullptr;
  check_pinned(cudaMallocHost(&p, static_cast<size_t>(bytes)), bytes, what);
  return PinnedBytes(static_cast<char*>(p));
}
inline CudaStream make_stream() {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "to make a stream");
  return CudaStream(stream);
}
inline CudaEvent make_event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "to make an event");
  return CudaEvent(event);
}

}  // namespace pagedinfer
