// A device that takes no time: memory and batches as another Ops has them, no arithmetic, and
// always the same token.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "tests/support/idle_ops.h"

namespace pagedinfer {

class FakeOps final : public IdleOps {
 public:
  FakeOps(std::unique_ptr<Ops> ops, TokenId token) : ops_(std::move(ops)), token_(token) {}

  std::string description() const override { return "none (returns at once)"; }
  Tensor allocate(DType dtype, int64_t rows, int64_t cols) override {
    return ops_->allocate(dtype, rows, cols);
  }
  Tensor upload(Tensor host, DType dtype) override { return ops_->upload(host, dtype); }
  KvLayer allocate_kv(DType dtype, int kv_heads, int head_dim, int64_t num_positions) override {
    return ops_->allocate_kv(dtype, kv_heads, head_dim, num_positions);
  }
  int64_t kv_bytes_per_position(DType dtype, int kv_heads, int head_dim) const override {
    return ops_->kv_bytes_per_position(dtype, kv_heads, head_dim);
  }
  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override {
    return ops_->scratch(dtype, rows, cols);
  }
  BatchView stage(const Batch& batch) override { return ops_->stage(batch); }
  DType activation_type() const override { return ops_->activation_type(); }
  void collect(Ticket, std::span<TokenId> out) override {
    std::fill(out.begin(), out.end(), token_);
  }

 private:
  std::unique_ptr<Ops> ops_;
  TokenId token_;
};

}  // namespace pagedinfer
