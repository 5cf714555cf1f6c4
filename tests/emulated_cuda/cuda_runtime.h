#pragma once
#include "cuda_runtime_api.h"
#include "emulated.h"
#include "runtime.h"

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel kernel, cudaFuncAttribute, int bytes) {
  return emulated::allow_shared(reinterpret_cast<const void*>(kernel), bytes);
}
