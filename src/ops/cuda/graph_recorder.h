#pragma once

#include "ops/cuda/cuda_memory.h"

namespace pagedinfer {

// The Recorder of StepGraphs for a stream: CUDA's stream capture. Other threads may go on using
// CUDA meanwhile.
class GraphRecorder {
 public:
  using Graph = CudaOwner<cudaGraphExec_t, cudaGraphExecDestroy>;

  // The stream outlives it.
  explicit GraphRecorder(cudaStream_t stream) : stream_(stream) {}

  void begin();
  Graph end();
  void cancel() noexcept;
  void launch(const Graph& graph);
  void wait();

 private:
  cudaStream_t stream_;
};

}  // namespace pagedinfer
