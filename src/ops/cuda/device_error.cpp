#include "ops/cuda/device_error.h"

#include <fmt/format.h>

#include "core/error.h"

namespace pagedinfer {

bool ends_device(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
    case cudaErrorMemoryAllocation:
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidDevicePointer:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidPtx:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorNotPermitted:
    case cudaErrorNotSupported:
    // A step that cannot be captured as a graph.
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread: return false;
    default: return true;
  }
}

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  // A failed launch is reported twice; this clears the second report for the next step.
  static_cast<void>(cudaGetLastError());
  const char* const words = cudaGetErrorString(status);
  if (ends_device(status)) {
    throw DeviceLost(
        fmt::format("the GPU was lost: {}: {} ({})", what, words, cudaGetErrorName(status)));
  }
  if (status == cudaErrorMemoryAllocation) {
    throw Error(fmt::format("out of GPU memory: {}", what));
  }
  if (status == cudaErrorNoKernelImageForDevice) {
    throw Error(
        fmt::format("{}: this build has no code for this GPU: configure with "
                    "-DCMAKE_CUDA_ARCHITECTURES=...",
                    what));
  }
  throw Error(fmt::format("the GPU refused: {}: {} ({})", what, words, cudaGetErrorName(status)));
}

}  // namespace pagedinfer
