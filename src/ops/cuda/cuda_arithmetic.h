#pragma once

#include <optional>
#include <span>
#include <string>

#include "kernels/types.h"
#include "ops/arithmetic.h"
#include "ops/cuda/cuda_experts.h"
#include "ops/cuda/cuda_state.h"
#include "ops/cuda/int8_products.h"
#include "ops/cuda/products.h"
#include "ops/cuda/step_memory.h"

namespace pagedinfer {

// The Arithmetic of make_cuda_ops(): calls of kernels/ and of cuBLAS. Activations have the type of
// computation; matrices and the cache have this type or int8; weights of norms, rope tables and
// logits are float32. kernels/kv_layout.h defines the layout of the cache, kernels/int8_panels.h
// the layout of matrices in int8.
class CudaArithmetic final : public Arithmetic {
 public:
  // REQUIRES: the state outlives it.
  explicit CudaArithmetic(CudaState& state)
      : state_(state), products_(state.options.deterministic) {}

  // Takes the buffers of all steps. REQUIRES: the state has the bounds and memory of steps.
  void reserve(const StepMemory& planned);

  // As Ops::arithmetic_name() and product_choices().
  std::string name() const;
  const std::optional<ProductChoices>& product_choices() const { return products_.choices(); }

  void embed(Tensor table, Tensor tokens, float scale, Tensor out) override;
  void rms_norm(Tensor x, Tensor weight, float offset, float eps, Tensor out) override;
  void add(Tensor x, Tensor y) override;
  void add_rms_norm(Tensor x, Tensor y, Tensor weight, float offset, float eps,
                    Tensor out) override;
  void norm_add_rms_norm(Tensor x, Tensor y, Tensor y_weight, Tensor weight, float offset,
                         float eps, Tensor out) override;
  void add_bias(Tensor x, Tensor bias) override;
  void matmul(Tensor x, std::span<const Product> products) override;
  void prepare(std::span<const InputProducts> products) override;
  void scale(Tensor x, float factor) override;
  void softcap(Tensor x, float cap) override;
  void rope_table(Tensor positions, Tensor inv_freq, const RopeScale& scale, Tensor out) override;
  void rope(Tensor x, Tensor table, int head_dim) override;
  void gate(Tensor gate, Tensor up, Activation activation, Tensor out) override;
  void route(Tensor x, const Router& router, const ExpertChoice& choice) override {
    experts_.route(x, router, choice);
  }
  void group_by_expert(const ExpertChoice& choice, const ExpertGroups& groups) override {
    experts_.group(choice, groups);
  }
  std::span<const int32_t> starts_on_host(const ExpertGroups&) const override { return {}; }
  void multiply_experts(Tensor x, const ExpertChoice& choice, const ExpertGroups& groups,
                        std::span<const Expert> experts, Activation activation,
                        const ClampedSwish& swish, Tensor out) override {
    experts_.multiply(x, choice, groups, experts, activation, swish, out);
  }
  void write_kv(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache) override;
  void rotate_and_write_kv(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
                           const RopeTables& tables, Tensor slot_mapping, KvLayer cache) override;
  void attention(Tensor q, KvLayer cache, const BatchView& batch, const AttentionArgs& args,
                 Tensor out) override;
  void gather_rows(Tensor x, Tensor indices, Tensor out) override;

 private:
  // Unless residual.data is null, residual += x first, and the sum is normalized. Unless x_weight
  // is empty, x is normalized before that.
  void norm(Tensor x, Tensor x_weight, kernels::Matrix residual, Tensor weight, float offset,
            float eps, Tensor out);

  CudaState& state_;
  CudaProducts products_;
  Int8Products int8_{state_};
  CudaExperts experts_{state_, int8_};
  char* workspace_ = nullptr;     // of products
  uint32_t* counters_ = nullptr;  // AttentionArgs::counters
};

}  // namespace pagedinfer
