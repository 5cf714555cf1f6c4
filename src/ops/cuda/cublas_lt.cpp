#include "ops/cuda/cublas_lt.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "core/error.h"
#include "ops/cuda/device_error.h"

namespace pagedinfer {
namespace {

const char* words_of(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED: return "not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED: return "out of memory";
    case CUBLAS_STATUS_INVALID_VALUE: return "invalid value";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "no code for this GPU";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "execution failed";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "internal error";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "not supported";
    default: return "unknown status";
  }
}

// RTLD_NODELETE: the driver may not survive unloading the library.
constexpr int kMode = RTLD_LOCAL | RTLD_NODELETE;

// The library of the version that this file was compiled for.
std::string library_name() { return fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR); }

}  // namespace

CublasLt::CublasLt() {
  library_ = dlopen(library_name().c_str(), RTLD_NOW | kMode);
  if (library_ == nullptr) throw Error(fmt::format("cuBLAS: {}", dlerror()));
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library_, name));
    if (function == nullptr && missing.empty()) missing = name;
  };
  find(version, "cublasLtGetVersion");
  find(create, "cublasLtCreate");
  find(destroy, "cublasLtDestroy");
  find(matmul, "cublasLtMatmul");
  find(get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(check_algorithm, "cublasLtMatmulAlgoCheck");
  find(algorithm_get, "cublasLtMatmulAlgoConfigGetAttribute");
  find(algorithm_capability, "cublasLtMatmulAlgoCapGetAttribute");
  find(desc_create, "cublasLtMatmulDescCreate");
  find(desc_destroy, "cublasLtMatmulDescDestroy");
  find(desc_set, "cublasLtMatmulDescSetAttribute");
  find(layout_create, "cublasLtMatrixLayoutCreate");
  find(layout_destroy, "cublasLtMatrixLayoutDestroy");
  find(layout_set, "cublasLtMatrixLayoutSetAttribute");
  find(preference_create, "cublasLtMatmulPreferenceCreate");
  find(preference_destroy, "cublasLtMatmulPreferenceDestroy");
  find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
  if (missing.empty()) return;
  dlclose(library_);
  throw Error(fmt::format("cuBLAS: {} has no {}", library_name(), missing));
}

CublasLt::~CublasLt() { dlclose(library_); }

std::string CublasLt::problem() {
  try {
    const CublasLt library;
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void CublasLt::check(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  // If the device is lost, the CUDA runtime knows the reason.
  check_cuda(cudaGetLastError(), what);
  if (status == CUBLAS_STATUS_EXECUTION_FAILED) check_cuda(cudaDeviceSynchronize(), what);
  throw Error(
      fmt::format("cuBLAS: {}: {} (status {})", what, words_of(status), static_cast<int>(status)));
}

}  // namespace pagedinfer
