#pragma once

#include <deque>
#include <vector>

#include "ops/cuda/cuda_owner.h"
#include "ops/timing.h"

namespace pagedinfer {

// A DeviceTimer whose marks are CUDA events: the device stamps them with its own time.
class EventTimer final : public DeviceTimer {
 public:
  explicit EventTimer(cudaStream_t stream) : stream_(stream) {}

  void mark() override;
  void take(std::span<double> seconds) override;

 private:
  cudaStream_t stream_;
  std::deque<CudaEvent> marks_;
  CudaEvent last_;                // the last mark that was taken
  std::vector<CudaEvent> spare_;  // events for new marks
};

}  // namespace pagedinfer
