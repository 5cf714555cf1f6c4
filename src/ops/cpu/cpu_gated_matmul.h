#pragma once

#include <cstdint>
#include <memory>

#include "ops/arithmetic.h"
#include "ops/cpu/cpu_matmul.h"
#include "ops/cpu/cpu_state.h"

namespace pagedinfer {

// Arithmetic::gated_matmul on the CPU, with the buffers that it reuses. A task computes a block of
// the outputs of gate and up, applies the gate while they are in its cache, and packs the result
// for the product that follows. So neither goes to memory.
class CpuGatedMatmul {
 public:
  // REQUIRES: the state and the products outlive it.
  CpuGatedMatmul(CpuState& state, CpuMatmul& matmul);

  void run(Tensor x, const GatedProducts& products, Tensor next, Tensor& out);

  PackedRows& gated() { return gated_; }
  const PackedRows& gated() const { return gated_; }
  // Of the buffers of each thread.
  static constexpr int64_t thread_bytes() { return sizeof(Block); }

 private:
  // Outputs of gate and up that a thread computes together.
  struct Block {
    static constexpr int kSize = 256 * 272;
    alignas(64) float gate[kSize], up[kSize];
  };

  CpuState& state_;
  CpuMatmul& matmul_;
  PackedRows gated_{"the result of a gate"};
  const std::unique_ptr<Block[]> blocks_;  // one per thread
};

}  // namespace pagedinfer
