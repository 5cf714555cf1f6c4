// Graphs of captured work. A graph is the captured items in their order; streams that fork and join
// inside a capture are not supported.
#include <algorithm>

#include "queue.h"

bool emulated::is_capturing() {
  const Call call;
  return std::ranges::any_of(device().streams, [](const auto& s) { return s->capture != nullptr; });
}

using emulated::answer;
using emulated::Call;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Call call;
  if (const cudaError_t error = emulated::enter(); error != cudaSuccess) return error;
  if (stream == nullptr) return answer(cudaErrorStreamCaptureUnsupported);
  if (stream->capture != nullptr) return answer(cudaErrorIllegalState);
  stream->capture = std::make_unique<CUgraph_st>();
  stream->capture_is_global = mode != cudaStreamCaptureModeRelaxed;
  stream->capture_is_broken = false;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Call call;
  *graph = nullptr;
  if (stream == nullptr || stream->capture == nullptr) return answer(cudaErrorIllegalState);
  const std::unique_ptr<CUgraph_st> captured = std::move(stream->capture);
  if (const cudaError_t error = emulated::enter(); error != cudaSuccess) return error;
  if (stream->capture_is_broken) return answer(cudaErrorStreamCaptureInvalidated);
  *graph = new CUgraph_st(*captured);
  ++emulated::device().counts.graphs;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Call call;
  *status = stream == nullptr || stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture_is_broken                     ? cudaStreamCaptureStatusInvalidated
                                                            : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

// Nodes have no properties that can be queried.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  const Call call;
  if (nodes != nullptr) return answer(cudaErrorNotSupported);
  *count = graph->items.size();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Call call;
  delete graph;
  --emulated::device().counts.graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  const Call call;
  if (const cudaError_t error = emulated::enter(); error != cudaSuccess) return error;
  if (emulated::settings().refuses_graphs) return answer(cudaErrorMemoryAllocation);
  *exec = new CUgraphExec_st{graph->items};
  ++emulated::device().counts.graphs;
  return cudaSuccess;
}

// Allowed if both graphs have the same kinds of work by the same kernels in the same order;
// arguments may differ.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  const Call call;
  if (const cudaError_t error = emulated::enter(); error != cudaSuccess) return error;
  const bool alike = std::ranges::equal(
      exec->items, graph->items,
      [](const auto& a, const auto& b) { return a.kind == b.kind && a.what == b.what; });
  *info = {alike ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateError, nullptr, nullptr};
  if (!alike) return answer(cudaErrorGraphExecUpdateFailure);
  exec->items = graph->items;
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  const Call call;
  return emulated::enter();
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const Call call;
  if (stream == nullptr || stream->capture != nullptr) {
    return answer(cudaErrorStreamCaptureUnsupported);  // nested graphs are not supported
  }
  ++emulated::device().counts.graph_launches;
  for (const emulated::Item& item : exec->items) {
    if (const cudaError_t error = emulated::enqueue(stream, item); error != cudaSuccess) {
      return error;
    }
  }
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const Call call;
  delete exec;
  --emulated::device().counts.graphs;
  return cudaSuccess;
}
