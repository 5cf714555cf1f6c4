#pragma once

#include <cstdint>
#include <optional>

#include "ops/cuda/cuda_arithmetic.h"
#include "ops/cuda/cuda_state.h"
#include "ops/cuda/cuda_steps.h"
#include "ops/cuda/staging.h"
#include "ops/device_memory.h"

namespace pagedinfer {

// The DeviceMemory of make_cuda_ops(): weights and caches, and the memory of the other parts.
class CudaMemory final : public DeviceMemory {
 public:
  // REQUIRES: all arguments outlive it.
  CudaMemory(CudaState& state, CudaArithmetic& arithmetic, CudaSteps& steps)
      : state_(state), arithmetic_(arithmetic), steps_(steps) {}

  void reserve_weights(int64_t bytes) override;
  Tensor allocate(DType dtype, int64_t rows, int64_t cols) override;
  Tensor upload(Tensor host, DType dtype) override;
  Tensor upload_matrix(Tensor host, DType dtype) override;
  Tensor upload_matrix(const RowSource& source, DType dtype) override;
  DType matrix_type(DType, DType compute) const override { return compute; }
  DType bias_type(DType compute) const override { return compute; }
  int64_t uploaded_bytes(Tensor host, DType dtype) const override;
  int64_t matrix_bytes(Tensor host, DType dtype) const override;
  void reserve_kv(int64_t bytes) override;
  KvLayer allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) override;
  void clear_kv() override;
  int64_t kv_bytes(DType dtype, int kv_heads, int head_dim, int64_t num_positions) const override;
  int64_t kv_bytes_per_position(DType dtype, int kv_heads, int head_dim) const override;
  int64_t workspace_bytes(const StepBounds& bounds) const override;
  void reserve_steps(const StepBounds& bounds, int64_t bytes) override;
  int64_t held_bytes() const override;
  std::optional<Capacity> capacity() const override;

 private:
  StepMemory memory_of(const StepBounds& bounds) const;

  CudaState& state_;
  CudaArithmetic& arithmetic_;
  CudaSteps& steps_;
  CudaPiece weights_;
  Staging staging_;  // of weights
};

}  // namespace pagedinfer
