#include "ops/cuda/event_timer.h"

#include "core/check.h"

namespace pagedinfer {
namespace {

CudaEvent make_timing_event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreate(&event), "to make an event");
  return CudaEvent(event);
}

}  // namespace

void EventTimer::mark() {
  if (spare_.empty()) spare_.push_back(make_timing_event());
  check_cuda(cudaEventRecord(spare_.back().get(), stream_), "timing");
  marks_.push_back(std::move(spare_.back()));
  spare_.pop_back();
}

void EventTimer::take(std::span<double> seconds) {
  CHECK(seconds.size() <= marks_.size());
  if (seconds.empty()) return;
  check_cuda(cudaEventSynchronize(marks_[seconds.size() - 1].get()), "timing");
  for (double& interval : seconds) {
    float milliseconds = 0;
    if (last_.get() != nullptr) {
      check_cuda(cudaEventElapsedTime(&milliseconds, last_.get(), marks_.front().get()), "timing");
      spare_.push_back(std::move(last_));
    }
    interval = 1e-3 * static_cast<double>(milliseconds);
    last_ = std::move(marks_.front());
    marks_.pop_front();
  }
}

}  // namespace pagedinfer
