#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention_plan.h"
#include "kernels/kv_layout.h"
#include "ops/cuda/cuda_arithmetic.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/cuda_owner.h"
#include "ops/cuda/cuda_state.h"
#include "ops/cuda/cuda_timing.h"
#include "ops/cuda/device_arena.h"
#include "ops/cuda/drawn_arrays.h"
#include "ops/cuda/graph_capture.h"
#include "ops/cuda/host_tasks.h"
#include "ops/cuda/sample_arrays.h"
#include "ops/cuda/staging.h"
#include "ops/cuda/step_arrays.h"
#include "ops/cuda/step_graphs.h"
#include "ops/cuda/step_shape.h"

namespace pagedinfer {

// The Ops of make_cuda_ops(). Activations have the type of computation; matrices and the cache have
// this type or int8; weights of norms, rope tables and logits are float32. kernels/kv_layout.h
// defines the layout of the cache, kernels/int8_panels.h the layout of matrices in int8.
class CudaBackend final : public CudaOps, private DeviceMemory, private StepProtocol {
 public:
  explicit CudaBackend(const CudaOptions& options);
  ~CudaBackend() override;

  DeviceMemory& memory() override { return *this; }
  StepProtocol& steps() override { return *this; }
  Arithmetic& arithmetic() override { return arithmetic_; }
  Timing& timing() override { return timing_; }
  std::string description() const override;
  std::string device_name() const override { return device_.name; }
  std::string arithmetic_name() const override { return arithmetic_.name(); }
  std::optional<ProductChoices> product_choices() const override {
    return arithmetic_.product_choices();
  }
  std::optional<Capacity> capacity() const override;
  GraphCounts graph_counts() const override { return graphs_.counts(); }

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
    return weights_.arena.size() + kv_.arena.size() + steps_.arena.size();
  }
  int64_t workspace_bytes(const StepBounds& bounds) const override;
  void reserve_steps(const StepBounds& bounds, int64_t bytes) override;
  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override;
  void expect(std::span<const SampleRow> rows) override { expected_ = rows; }
  BatchView stage(const Batch& batch) override;
  void copy_kv(const BatchView& batch, std::span<const KvLayer> cache) override;
  Tensor run(const BatchView& batch, const std::function<Tensor()>& queue) override;
  void run_on_host(int count, const std::function<void(int)>& task) override {
    run_host_tasks(count, task);
  }
  bool may_replay() const override { return options_.graphs && only_decodes(step_.shape); }
  DType activation_type() const override { return options_.compute; }

  Ticket sample(Tensor logits, std::span<const SampleRow> rows) override;
  void collect(Ticket ticket, std::span<DrawnToken> out) override;

  void read(Tensor from, void* to) override;
  void write(const void* from, Tensor to) override;

 private:
  // What a sample() drew.
  struct Drawn {
    char* block = nullptr;  // DrawnLayout
    PinnedBytes on_host = {};
    CudaEvent is_copied = {};  // it is on the host
    DrawnArrays arrays = {};

    int32_t* tokens() const { return reinterpret_cast<int32_t*>(block); }
  };
  // Buffers that reserve_weights() and reserve_steps() allocate on host and device beside the
  // tensors.
  struct Fixed {
    char* arrays = nullptr;   // of a step, followed by the settings of its samples
    int64_t array_bytes = 0;  // of a step, at most
    char* masks = nullptr;    // of sampled rows
    int64_t mask_bytes = 0;
    int32_t* copy_arrays = nullptr;   // of copy_kv(): sources, destinations, counts
    std::array<Drawn, 2> drawn = {};  // by the latest two sample(), alternately
    Staging weights = {}, step = {}, samples = {}, copies = {};
    // From the first mask on. Masks are sent in a stream of their own, while the step is computed.
    Staging mask_staging = {};
    CudaStream mask_stream = {};
    CudaEvent masks_are_read = {};  // by the samples before
    int64_t sample_bytes = 0;
  };
  // The result of queueing a step, and the addresses with which it was queued.
  struct Queued {
    const void *arrays = nullptr, *attention_workspace = nullptr;
    int64_t scratch_begin = 0, scratch_bytes = 0;  // in the arena
    Tensor out = {};
  };

  static constexpr size_t kMaxGraphs = 64;

  void wait(const char* what);
  // Sends the masks that sample_arrays_ has, and returns where they are.
  const uint32_t* send_masks(int64_t vocab);

  CudaState state_;
  const CudaOptions& options_ = state_.options;
  const cudaDeviceProp& device_ = state_.device;
  const CudaStream& stream_ = state_.stream;
  StepBounds& bounds_ = state_.bounds;
  CudaPiece &kv_ = state_.kv_piece, &steps_ = state_.step_piece;
  CudaState::Step& step_ = state_.step;
  CudaArithmetic arithmetic_{state_};
  CudaTiming timing_{state_};

  CudaPiece weights_;
  Fixed fixed_;
  SampleArrays sample_arrays_;
  // The rows whose settings are in sample_arrays_ and were sent with the batch, and the place where
  // the settings begin.
  std::span<const SampleRow> sent_rows_ = {};
  char* row_settings_ = nullptr;
  std::span<const SampleRow> expected_ = {};
  Ticket latest_ = 0;
  GraphCapture capture_;
  StepGraphs<StepShape, Queued, GraphCapture> graphs_{kMaxGraphs};
};

}  // namespace pagedinfer
