#pragma once

#include <array>

#include "ops/cuda/cuda_owner.h"

namespace pagedinfer {

// Pinned buffers for copies to the device, used in rotation: the host fills one while the device
// reads the others.
class Staging {
 public:
  static constexpr int kNumBuffers = 2;

  Staging() = default;
  explicit Staging(int64_t bytes);

  int64_t bytes() const { return bytes_; }
  // Waits until the device has read the next buffer, and returns it to be filled.
  char* next();
  // Queues the copy of the first `bytes` of the buffer that next() gave, and then the event that it
  // returns.
  cudaEvent_t send(void* to, int64_t bytes, cudaStream_t stream);

 private:
  int64_t bytes_ = 0;
  int turn_ = 0;
  std::array<PinnedBytes, kNumBuffers> buffers_ = {};
  std::array<CudaEvent, kNumBuffers> sent_ = {};
};

}  // namespace pagedinfer
