#pragma once

#include <array>
#include <functional>
#include <span>

#include "ops/cuda/cuda_state.h"
#include "ops/cuda/drawn_arrays.h"
#include "ops/cuda/graph_capture.h"
#include "ops/cuda/host_tasks.h"
#include "ops/cuda/sample_arrays.h"
#include "ops/cuda/staging.h"
#include "ops/cuda/step_graphs.h"
#include "ops/cuda/step_memory.h"
#include "ops/step_protocol.h"

namespace pagedinfer {

// The StepProtocol of make_cuda_ops(): sends batches and settings to the device, draws, and replays
// steps as graphs.
class CudaSteps final : public StepProtocol {
 public:
  // REQUIRES: the state outlives it.
  explicit CudaSteps(CudaState& state) : state_(state), capture_(state.stream.get()) {}

  // Takes the buffers of all steps. REQUIRES: the state has the bounds and memory of steps.
  void reserve(const StepMemory& planned);
  // To be called before memory that steps use gets another use.
  void forget_graphs() { graphs_.forget(capture_); }
  GraphCounts graph_counts() const { return graphs_.counts(); }

  void expect(std::span<const SampleRow> rows) override { expected_ = rows; }
  BatchView stage(const Batch& batch) override;
  void copy_kv(const BatchView& batch, std::span<const KvLayer> cache) override;
  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override;
  DType activation_type() const override { return state_.options.compute; }
  Tensor run(const BatchView& batch, const std::function<Tensor()>& queue) override;
  bool may_replay() const override {
    return state_.options.graphs && only_decodes(state_.step.shape);
  }
  void run_on_host(int count, const std::function<void(int)>& task) override {
    run_host_tasks(count, task);
  }
  Ticket sample(Tensor logits, std::span<const SampleRow> rows) override;
  void collect(Ticket ticket, std::span<DrawnToken> out) override;

 private:
  // The tokens that one call of sample() drew.
  struct Drawn {
    char* block = nullptr;  // DrawnLayout
    PinnedBytes on_host = {};
    CudaEvent is_copied = {};  // it is on the host
    DrawnArrays arrays = {};

    int32_t* tokens() const { return reinterpret_cast<int32_t*>(block); }
  };
  // The result of queueing a step, and the addresses with which it was queued.
  struct Queued {
    const void *arrays = nullptr, *attention_workspace = nullptr;
    int64_t scratch_begin = 0, scratch_bytes = 0;  // in the arena
    Tensor out = {};
  };
  static constexpr size_t kMaxGraphs = 64;

  // Sends the masks that sample_arrays_ has, and returns where they are.
  const uint32_t* send_masks(int64_t vocab);

  CudaState& state_;
  // Buffers of all steps, on the device and to send to it.
  char* arrays_ = nullptr;   // of a step, followed by the settings of its samples
  int64_t array_bytes_ = 0;  // of a step, at most
  int64_t sample_bytes_ = 0;
  Staging array_staging_, sample_staging_;
  int32_t* copy_arrays_ = nullptr;  // of copy_kv(): sources, destinations, counts
  Staging copy_staging_;
  char* masks_ = nullptr;  // of sampled rows
  int64_t mask_bytes_ = 0;
  // From the first mask on. Masks are sent in a stream of their own, while the step is computed.
  Staging mask_staging_;
  CudaStream mask_stream_;
  CudaEvent masks_are_read_;         // by the samples before
  std::array<Drawn, 2> drawn_ = {};  // by the latest two sample(), alternately
  Ticket latest_ = 0;

  SampleArrays sample_arrays_;
  std::span<const SampleRow> expected_ = {};
  // The rows whose settings are in sample_arrays_ and were sent with the batch, and the place where
  // the settings begin.
  std::span<const SampleRow> sent_rows_ = {};
  char* row_settings_ = nullptr;
  GraphCapture capture_;
  StepGraphs<StepShape, Queued, GraphCapture> graphs_{kMaxGraphs};
};

}  // namespace pagedinfer
