#pragma once

#include "ops/cuda/cuda_owner.h"

namespace pagedinfer {

// The Capture of StepGraphs: CUDA's stream capture. Other threads may use CUDA during a capture.
class GraphCapture {
 public:
  using Graph = CudaOwner<cudaGraphExec_t, cudaGraphExecDestroy>;

  // REQUIRES: the stream outlives it.
  explicit GraphCapture(cudaStream_t stream) : stream_(stream) {}

  void begin();
  Graph end();
  void cancel() noexcept;
  void launch(const Graph& graph);
  void wait();

 private:
  cudaStream_t stream_;
};

}  // namespace pagedinfer
