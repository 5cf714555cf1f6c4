#pragma once

#include <cuda_runtime_api.h>

namespace pagedinfer {

// Whether a process that has seen this error can do no more on the device.
bool ends_device(cudaError_t status);

// Throws DeviceLost or Error unless the call succeeded; `what` says what was being done.
void check_cuda(cudaError_t status, const char* what);

}  // namespace pagedinfer
