#include "ops/cuda/graph_recorder.h"

namespace pagedinfer {
namespace {

using Recording = CudaOwner<cudaGraph_t, cudaGraphDestroy>;

}  // namespace

void GraphRecorder::begin() {
  check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
             "to record a step as a graph");
}

GraphRecorder::Graph GraphRecorder::end() {
  cudaGraph_t recorded = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream_, &recorded);
  const Recording recording(recorded);
  check_cuda(status, "to record a step as a graph");
  cudaGraphExec_t graph = nullptr;
  check_cuda(cudaGraphInstantiate(&graph, recording.get(), 0), "to make a graph of a step");
  return Graph(graph);
}

void GraphRecorder::cancel() noexcept {
  cudaGraph_t recorded = nullptr;
  static_cast<void>(cudaStreamEndCapture(stream_, &recorded));
  const Recording recording(recorded);
  static_cast<void>(cudaGetLastError());  // the next call shall not find it
}

void GraphRecorder::launch(const Graph& graph) {
  check_cuda(cudaGraphLaunch(graph.get(), stream_), "a step's graph");
}

void GraphRecorder::wait() { check_cuda(cudaStreamSynchronize(stream_), "a step's graph"); }

}  // namespace pagedinfer
