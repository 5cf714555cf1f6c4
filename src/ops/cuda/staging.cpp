#include "ops/cuda/staging.h"

#include "core/check.h"

namespace pagedinfer {

Staging::Staging(int64_t bytes) : bytes_(bytes) {
  for (PinnedBytes& buffer : buffers_) {
    buffer = take_pinned(bytes, "to copy from");
  }
  for (CudaEvent& event : sent_) event = make_event();
}

char* Staging::next() {
  turn_ = (turn_ + 1) % kNumBuffers;
  check_cuda(cudaEventSynchronize(sent_[static_cast<size_t>(turn_)].get()), "a copy to the GPU");
  return buffers_[static_cast<size_t>(turn_)].get();
}

cudaEvent_t Staging::send(void* to, int64_t bytes, cudaStream_t stream) {
  CHECK(bytes <= bytes_);
  const auto turn = static_cast<size_t>(turn_);
  check_cuda(cudaMemcpyAsync(to, buffers_[turn].get(), static_cast<size_t>(bytes),
                             cudaMemcpyHostToDevice, stream),
             "a copy to the GPU");
  check_cuda(cudaEventRecord(sent_[turn].get(), stream), "a copy to the GPU");
  return sent_[turn].get();
}

}  // namespace pagedinfer
