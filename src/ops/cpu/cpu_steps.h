#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ops/cpu/arena.h"
#include "ops/cpu/cpu_state.h"
#include "ops/cpu/drawn_tokens.h"
#include "ops/cpu/sampler.h"
#include "ops/device_memory.h"
#include "ops/step_protocol.h"

namespace pagedinfer {

// The StepProtocol of make_cpu_ops(): the memory of a step, and its draws.
class CpuSteps final : public StepProtocol {
 public:
  // REQUIRES: the state outlives it.
  explicit CpuSteps(CpuState& state);

  // Bytes of scratch memory: what stage() takes, and the gaps between all pieces of a step.
  static int64_t staged_bytes(const StepBounds& bounds);
  // The share of DeviceMemory::thread_bytes() of each thread.
  static int64_t thread_bytes(const StepBounds& bounds) { return Sampler::max_bytes(bounds.vocab); }
  // Makes the scratch memory.
  void reserve(int64_t bytes) { scratch_.reserve(bytes); }
  std::span<char> reserved() const { return scratch_.reserved(); }
  int64_t held_bytes() const { return scratch_.held_bytes(); }

  BatchView stage(const Batch& batch) override;
  void copy_kv(const BatchView& batch, std::span<const KvLayer> cache) override;
  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override;
  DType activation_type() const override { return DType::kF32; }
  void run_on_host(int count, const std::function<void(int)>& task) override;
  Ticket sample(Tensor logits, std::span<const SampleRow> rows) override;
  void collect(Ticket ticket, std::span<DrawnToken> out) override { drawn_.collect(ticket, out); }

 private:
  CpuState& state_;
  Arena scratch_;
  std::vector<Sampler> samplers_;  // one per thread
  DrawnTokens drawn_;
};

}  // namespace pagedinfer
