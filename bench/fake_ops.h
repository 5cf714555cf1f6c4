// A device that takes no time: memory and batches as another one has them, no arithmetic, and
// always the same token.
#pragma once

#include <algorithm>
#include <memory>
#include <span>

#include "ops/intercept.h"
#include "ops/step_protocol.h"

namespace pagedinfer {

class FakeSteps final : public StepProtocol {
 public:
  FakeSteps(StepProtocol& steps, TokenId token) : steps_(steps), token_(token) {}

  BatchView stage(const Batch& batch) override { return steps_.stage(batch); }
  void copy_kv(const BatchView&, std::span<const KvLayer>) override {}
  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override {
    return steps_.scratch(dtype, rows, cols);
  }
  DType activation_type() const override { return steps_.activation_type(); }
  Ticket sample(Tensor, std::span<const SampleRow>) override { return ++latest_; }
  void collect(Ticket, std::span<DrawnToken> out) override {
    std::fill(out.begin(), out.end(), DrawnToken{.token = token_});
  }

 private:
  StepProtocol& steps_;
  TokenId token_;
  Ticket latest_ = 0;
};

// Operations return at once and have computed nothing.
inline std::unique_ptr<Arithmetic> fake_arithmetic(Arithmetic& arithmetic) {
  return intercept(arithmetic,
                   {.around = [](const OpName&, const OpWork&, const std::function<void()>&) {}});
}

}  // namespace pagedinfer
