#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace pagedinfer {

// Whether the device is lost to this process after such an error. If the error does not tell, waits
// for the device, which does.
bool ends_device(cudaError_t status);

// Throws Error, or DeviceLost if ends_device(), unless the call succeeded. `what` names the action.
void check_cuda(cudaError_t status, const char* what);

// The same for a call that takes pinned memory of the host.
void check_pinned(cudaError_t status, int64_t bytes, const char* what);

}  // namespace pagedinfer
