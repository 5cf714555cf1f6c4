#pragma once

#include <functional>
#include <span>

#include "ops/step_protocol.h"

namespace pagedinfer {

// Passes every call on to another StepProtocol: a base class for protocols that watch or change
// some calls.
class PassedOnSteps : public StepProtocol {
 public:
  // REQUIRES: `inner` outlives it.
  explicit PassedOnSteps(StepProtocol& inner) : inner_(inner) {}

  void expect(std::span<const SampleRow> rows) override { inner_.expect(rows); }
  BatchView stage(const Batch& batch) override { return inner_.stage(batch); }
  void copy_kv(const BatchView& batch, std::span<const KvLayer> cache) override {
    inner_.copy_kv(batch, cache);
  }
  Tensor scratch(DType dtype, int64_t rows, int64_t cols) override {
    return inner_.scratch(dtype, rows, cols);
  }
  DType activation_type() const override { return inner_.activation_type(); }
  Tensor run(const BatchView& batch, const std::function<Tensor()>& queue) override {
    return inner_.run(batch, queue);
  }
  bool may_replay() const override { return inner_.may_replay(); }
  void run_on_host(int count, const std::function<void(int)>& task) override {
    inner_.run_on_host(count, task);
  }
  Ticket sample(Tensor logits, std::span<const SampleRow> rows) override {
    return inner_.sample(logits, rows);
  }
  void collect(Ticket ticket, std::span<DrawnToken> out) override { inner_.collect(ticket, out); }

 private:
  StepProtocol& inner_;
};

}  // namespace pagedinfer
