// An Ops that has no memory and computes nothing, to be made into doubles.
#pragma once

#include <span>
#include <string>

#include "ops/ops.h"

namespace pagedinfer {

class IdleOps : public Ops {
 public:
  std::string description() const override { return "idle"; }
  Tensor allocate(DType, int64_t, int64_t) override { return {}; }
  Tensor upload(Tensor host, DType) override { return host; }
  KvLayer allocate_kv(DType, int, int, int64_t) override { return {}; }
  int64_t kv_bytes_per_position(DType, int, int) const override { return 0; }
  Tensor scratch(DType, int64_t, int64_t) override { return {}; }
  BatchView stage(const Batch&) override { return {}; }
  void copy(Tensor, Tensor) override {}
  DType activation_type() const override { return DType::kF32; }
  void embed(Tensor, Tensor, float, Tensor) override {}
  void rms_norm(Tensor, Tensor, float, float, Tensor) override {}
  void add(Tensor, Tensor) override {}
  void add_bias(Tensor, Tensor) override {}
  void matmul(Tensor, std::span<const Product>) override {}
  void rope_table(Tensor, Tensor, Tensor) override {}
  void rope(Tensor, Tensor) override {}
  void gate(Tensor, Tensor, Activation, Tensor) override {}
  void write_kv(Tensor, Tensor, Tensor, KvLayer) override {}
  void attention(Tensor, KvLayer, const BatchView&, const AttentionArgs&, Tensor) override {}
  void gather_rows(Tensor, Tensor, Tensor) override {}
  Ticket sample(Tensor, std::span<const SampleRow>) override { return ++latest_; }
  void collect(Ticket, std::span<TokenId>) override {}

 private:
  Ticket latest_ = 0;
};

}  // namespace pagedinfer
