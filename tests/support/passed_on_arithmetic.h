// Arithmetic that passes every call on: a base class of test doubles that change one of them.
#pragma once

#include <span>

#include "ops/arithmetic.h"

namespace pagedinfer {

class PassedOnArithmetic : public Arithmetic {
 public:
  explicit PassedOnArithmetic(Arithmetic& inner) : inner_(inner) {}

  void embed(Tensor table, Tensor tokens, float scale, Tensor out) override {
    inner_.embed(table, tokens, scale, out);
  }
  void rms_norm(Tensor x, Tensor weight, float offset, float eps, Tensor out) override {
    inner_.rms_norm(x, weight, offset, eps, out);
  }
  void add(Tensor x, Tensor y) override { inner_.add(x, y); }
  void add_rms_norm(Tensor x, Tensor y, Tensor weight, float offset, float eps,
                    Tensor out) override {
    inner_.add_rms_norm(x, y, weight, offset, eps, out);
  }
  void norm_add_rms_norm(Tensor x, Tensor y, Tensor y_weight, Tensor weight, float offset,
                         float eps, Tensor out) override {
    inner_.norm_add_rms_norm(x, y, y_weight, weight, offset, eps, out);
  }
  void add_bias(Tensor x, Tensor bias) override { inner_.add_bias(x, bias); }
  void matmul(Tensor x, std::span<const Product> products) override { inner_.matmul(x, products); }
  void scale(Tensor x, float factor) override { inner_.scale(x, factor); }
  void softcap(Tensor x, float cap) override { inner_.softcap(x, cap); }
  void rope_table(Tensor positions, Tensor inv_freq, const RopeScale& scale, Tensor out) override {
    inner_.rope_table(positions, inv_freq, scale, out);
  }
  void rope(Tensor x, Tensor table, int head_dim) override { inner_.rope(x, table, head_dim); }
  void gate(Tensor gate, Tensor up, Activation activation, Tensor out) override {
    inner_.gate(gate, up, activation, out);
  }
  void route(Tensor x, const Router& router, const ExpertChoice& choice) override {
    inner_.route(x, router, choice);
  }
  void group_by_expert(const ExpertChoice& choice, const ExpertGroups& groups) override {
    inner_.group_by_expert(choice, groups);
  }
  std::span<const int32_t> starts_on_host(const ExpertGroups& groups) const override {
    return inner_.starts_on_host(groups);
  }
  void multiply_experts(Tensor x, const ExpertChoice& choice, const ExpertGroups& groups,
                        std::span<const Expert> experts, Activation activation,
                        const ClampedSwish& swish, Tensor out) override {
    inner_.multiply_experts(x, choice, groups, experts, activation, swish, out);
  }
  void write_kv(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache) override {
    inner_.write_kv(k, v, slot_mapping, cache);
  }
  void rotate_and_write_kv(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
                           const RopeTables& tables, Tensor slot_mapping, KvLayer cache) override {
    inner_.rotate_and_write_kv(q, k, v, norms, tables, slot_mapping, cache);
  }
  void attention(Tensor q, KvLayer cache, const BatchView& batch, const AttentionArgs& args,
                 Tensor out) override {
    inner_.attention(q, cache, batch, args, out);
  }
  void gather_rows(Tensor x, Tensor indices, Tensor out) override {
    inner_.gather_rows(x, indices, out);
  }

 private:
  Arithmetic& inner_;
};

}  // namespace pagedinfer
