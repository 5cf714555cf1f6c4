#include "ops/cuda/graph_capture.h"

namespace pagedinfer {
namespace {

using CapturedGraph = CudaOwner<cudaGraph_t, cudaGraphDestroy>;

}  // namespace

void GraphCapture::begin() {
  check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
             "to capture a step as a graph");
}

GraphCapture::Graph GraphCapture::end() {
  cudaGraph_t captured = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream_, &captured);
  const CapturedGraph owner(captured);
  check_cuda(status, "to capture a step as a graph");
  cudaGraphExec_t graph = nullptr;
  check_cuda(cudaGraphInstantiate(&graph, owner.get(), 0), "to make a graph of a step");
  return Graph(graph);
}

void GraphCapture::cancel() noexcept {
  cudaGraph_t captured = nullptr;
  static_cast<void>(cudaStreamEndCapture(stream_, &captured));
  const CapturedGraph owner(captured);
  static_cast<void>(cudaGetLastError());  // so that the next call does not report it
}

void GraphCapture::launch(const Graph& graph) {
  check_cuda(cudaGraphLaunch(graph.get(), stream_), "a step's graph");
}

void GraphCapture::wait() { check_cuda(cudaStreamSynchronize(stream_), "a step's graph"); }

}  // namespace pagedinfer
