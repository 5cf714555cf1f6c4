#pragma once

#include <span>
#include <vector>

#include "kernels/attention_plan.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/cuda_piece.h"
#include "ops/cuda/step_arrays.h"
#include "ops/cuda/step_shape.h"

namespace pagedinfer {

// What the parts of a GPU's backend share: the device and its stream, the memory that several of
// them take pieces of, and the step that was staged last.
struct CudaState {
  // Throws Error if the device cannot be used.
  explicit CudaState(const CudaOptions& asked)
      : options(asked), device(properties_of(asked.device)), stream(make_stream()) {}
  CudaState(const CudaState&) = delete;
  CudaState& operator=(const CudaState&) = delete;

  // The attention plans of a step, the shape and layout of its arrays, and pointers to these arrays
  // and the workspace on the device.
  struct Step {
    std::vector<kernels::AttentionPlan> plans = {};
    StepShape shape = {};
    StepArrays at = {};
    int32_t* arrays = nullptr;
    char* attention_workspace = nullptr;
  };

  const CudaOptions options;
  const cudaDeviceProp device;
  const CudaStream stream;
  StepBounds bounds = {};  // of all steps
  CudaPiece kv_piece;      // caches
  CudaPiece step_piece;    // buffers of all steps grow from its beginning, of one step from its end
  Step step;

 private:
  static cudaDeviceProp properties_of(int device) {
    check_cuda(cudaSetDevice(device), "to choose a GPU");
    cudaDeviceProp properties = {};
    check_cuda(cudaGetDeviceProperties(&properties, device), "to look at the GPU");
    return properties;
  }
};

}  // namespace pagedinfer
