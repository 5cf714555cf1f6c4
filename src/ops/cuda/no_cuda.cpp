// The backend of a build without CUDA.
#include "core/error.h"
#include "ops/cuda/cuda_ops.h"

namespace pagedinfer {

std::string cuda_problem() {
  return "this build has no CUDA backend (it is built where CMake finds nvcc, or with "
         "-DPAGEDINFER_CUDA=ON)";
}

bool has_gpu() { return false; }
std::string cuda_first_start() { return ""; }

std::unique_ptr<CudaOps> make_cuda_ops(const CudaOptions&) { throw Error(cuda_problem()); }

}  // namespace pagedinfer
