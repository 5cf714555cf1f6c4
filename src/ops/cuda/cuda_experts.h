#pragma once

#include <cstdint>
#include <span>

#include "ops/cuda/cuda_state.h"
#include "ops/cuda/int8_products.h"
#include "ops/cuda/step_memory.h"
#include "ops/experts.h"

namespace pagedinfer {

// The experts' operations of Arithmetic on a GPU, with the buffers between their products.
class CudaExperts {
 public:
  // REQUIRES: both outlive it.
  CudaExperts(CudaState& state, Int8Products& int8) : state_(state), int8_(int8) {}

  // Takes the buffers of all steps.
  void reserve(const StepMemory& planned);

  void route(Tensor x, const Router& router, const ExpertChoice& choice);
  void group(const ExpertChoice& choice, const ExpertGroups& groups);
  void multiply(Tensor x, const ExpertChoice& choice, const ExpertGroups& groups,
                std::span<const Expert> experts, Activation activation, const ClampedSwish& swish,
                Tensor out);

 private:
  CudaState& state_;
  Int8Products& int8_;
  char* gates_ = nullptr;  // ExpertProductsArgs::gated
  float* outputs_ = nullptr;
  int64_t gate_bytes_ = 0, output_bytes_ = 0;
};

}  // namespace pagedinfer
