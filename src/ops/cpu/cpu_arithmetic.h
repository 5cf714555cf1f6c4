#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ops/arithmetic.h"
#include "ops/cpu/cpu_attention.h"
#include "ops/cpu/cpu_experts.h"
#include "ops/cpu/cpu_gated_matmul.h"
#include "ops/cpu/cpu_matmul.h"
#include "ops/cpu/cpu_state.h"
#include "ops/device_memory.h"

namespace pagedinfer {

// The Arithmetic of make_cpu_ops(), with the buffers that it reuses. Activations are float32;
// kv_layout.h is the layout of the cache.
class CpuArithmetic final : public Arithmetic {
 public:
  // REQUIRES: the state outlives it.
  explicit CpuArithmetic(CpuState& state);

  // The shares of DeviceMemory::workspace_bytes() and thread_bytes().
  static int64_t step_bytes(const StepBounds& bounds);
  int64_t thread_bytes(const StepBounds& bounds) const;
  // Makes the buffers of a step, step_bytes() in all.
  void reserve(const StepBounds& bounds);
  int64_t held_bytes() const;
  // The buffers of a step, without those of experts.
  std::array<std::span<char>, 2> packed_rows() const {
    return {matmul_.packed().held(), gated_matmul_.gated().held()};
  }

  void embed(Tensor table, Tensor tokens, float scale, Tensor out) override;
  void rms_norm(Tensor x, Tensor weight, float offset, float eps, Tensor out) override;
  void add(Tensor x, Tensor y) override;
  void add_bias(Tensor x, Tensor bias) override;
  void matmul(Tensor x, std::span<const Product> products) override { matmul_.run(x, products); }
  void scale(Tensor x, float factor) override;
  void softcap(Tensor x, float cap) override;
  void rope_table(Tensor positions, Tensor inv_freq, const RopeScale& scale, Tensor out) override;
  void rope(Tensor x, Tensor table, int head_dim) override;
  void gate(Tensor gate, Tensor up, Activation activation, Tensor out) override;
  void gated_matmul(Tensor x, const GatedProducts& products, Tensor next, Tensor& out) override {
    gated_matmul_.run(x, products, next, out);
  }
  bool fuses_gate() const override { return true; }
  void route(Tensor x, const Router& router, const ExpertChoice& choice) override {
    experts_.route(x, router, choice);
  }
  void multiply_experts(Tensor x, const ExpertChoice& choice, const ExpertGroups& groups,
                        std::span<const Expert> experts, Activation activation,
                        const ClampedSwish& swish, Tensor out) override {
    experts_.multiply(x, choice, groups, experts, activation, swish, out);
  }
  void write_kv(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache) override;
  void rotate_and_write_kv(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
                           const RopeTables& tables, Tensor slot_mapping, KvLayer cache) override;
  void attention(Tensor q, KvLayer cache, const BatchView& batch, const AttentionArgs& args,
                 Tensor out) override {
    attention_.run(q, cache, batch, args, out);
  }
  void gather_rows(Tensor x, Tensor indices, Tensor out) override;

 private:
  CpuState& state_;
  CpuMatmul matmul_;
  CpuGatedMatmul gated_matmul_;
  CpuAttention attention_;
  CpuExperts experts_;
};

}  // namespace pagedinfer
