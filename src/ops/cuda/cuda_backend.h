#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "kernels/kv_layout.h"
#include "ops/cuda/cuda_arithmetic.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/cuda_owner.h"
#include "ops/cuda/cuda_state.h"
#include "ops/cuda/cuda_steps.h"
#include "ops/cuda/cuda_timing.h"
#include "ops/cuda/staging.h"

namespace pagedinfer {

// The Ops of make_cuda_ops(). Activations have the type of computation; matrices and the cache have
// this type or int8; weights of norms, rope tables and logits are float32. kernels/kv_layout.h
// defines the layout of the cache, kernels/int8_panels.h the layout of matrices in int8.
class CudaBackend final : public CudaOps, private DeviceMemory {
 public:
  explicit CudaBackend(const CudaOptions& options);
  ~CudaBackend() override;

  DeviceMemory& memory() override { return *this; }
  StepProtocol& steps() override { return steps_; }
  Arithmetic& arithmetic() override { return arithmetic_; }
  Timing& timing() override { return timing_; }
  std::string description() const override;
  std::string device_name() const override { return device_.name; }
  std::string arithmetic_name() const override { return arithmetic_.name(); }
  std::optional<ProductChoices> product_choices() const override {
    return arithmetic_.product_choices();
  }
  std::optional<Capacity> capacity() const override;
  GraphCounts graph_counts() const override { return steps_.graph_counts(); }

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
  int64_t held_bytes() const override {
    return weights_.arena.size() + kv_.arena.size() + step_piece_.arena.size();
  }
  int64_t workspace_bytes(const StepBounds& bounds) const override;
  void reserve_steps(const StepBounds& bounds, int64_t bytes) override;

  void read(Tensor from, void* to) override;
  void write(const void* from, Tensor to) override;

 private:
  void wait(const char* what);

  CudaState state_;
  const CudaOptions& options_ = state_.options;
  const cudaDeviceProp& device_ = state_.device;
  const CudaStream& stream_ = state_.stream;
  CudaPiece &kv_ = state_.kv_piece, &step_piece_ = state_.step_piece;
  CudaArithmetic arithmetic_{state_};
  CudaSteps steps_{state_};
  CudaTiming timing_{state_};

  CudaPiece weights_;
  Staging weight_staging_;
};

}  // namespace pagedinfer
