#include "ops/cuda/device_error.h"

#include <fmt/format.h>

#include <cstdint>

#include "core/error.h"

namespace pagedinfer {

namespace {

// What an error says of the device.
enum class Says : uint8_t { kWorks, kIsLost, kNothing };

Says says(cudaError_t status) {
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
    case cudaErrorDevicesUnavailable:  // another program has it for itself
    case cudaErrorNotSupported:
    case cudaErrorNotReady:
    // A step that cannot be captured as a graph.
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread: return Says::kWorks;
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable: return Says::kIsLost;
    default: return Says::kNothing;
  }
}

}  // namespace

// On a lost device every call that waits returns the error by which the device was lost. A device
// that still works finishes its queue, or refuses the call because a stream is being captured.
bool ends_device(cudaError_t status) {
  if (says(status) != Says::kNothing) return says(status) == Says::kIsLost;
  const cudaError_t now = cudaDeviceSynchronize();
  static_cast<void>(cudaGetLastError());
  return says(now) != Says::kWorks;
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

void check_pinned(cudaError_t status, int64_t bytes, const char* what) {
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw Error(
        fmt::format("out of memory of the host that a GPU can read: {} bytes {}", bytes, what));
  }
  check_cuda(status, what);
}

}  // namespace pagedinfer
