#pragma once

#include <deque>
#include <vector>

#include "ops/cuda/cuda_memory.h"
#include "ops/device_timer.h"

namespace pagedinfer {

// Marks are events that the device gives its own time when it comes to them.
class EventTimer final : public DeviceTimer {
 public:
  explicit EventTimer(cudaStream_t stream) : stream_(stream) {}

  void mark() override;
  void take(std::span<double> seconds) override;

 private:
  cudaStream_t stream_;
  std::deque<CudaEvent> marks_;
  CudaEvent last_;                // of those that were taken
  std::vector<CudaEvent> spare_;  // to be marks again
};

}  // namespace pagedinfer
