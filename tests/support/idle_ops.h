// Base classes for test doubles of a device. Their operations do nothing.
#pragma once

#include <memory>
#include <span>

#include "ops/cpu/cpu_ops.h"
#include "ops/intercept.h"
#include "ops/step_protocol.h"

namespace pagedinfer {

// Has no memory; a double defines scratch().
class IdleSteps : public StepProtocol {
 public:
  BatchView stage(const Batch&) override { return {}; }
  void copy_kv(const BatchView&, std::span<const KvLayer>) override {}
  DType activation_type() const override { return DType::kF32; }
  Ticket sample(Tensor, std::span<const SampleRow>) override { return ++latest_; }
  void collect(Ticket, std::span<DrawnToken>) override {}

 private:
  Ticket latest_ = 0;
};

// Computes nothing. Calls on_operation, if it is set, for each operation.
class IdleArithmetic {
 public:
  explicit IdleArithmetic(std::function<void(const OpName&)> on_operation = {})
      : cpu_(make_cpu_ops({})),
        ops_(intercept(cpu_->arithmetic(),
                       {.around = [on_operation](const OpName& name, const OpWork&,
                                                 const std::function<void()>&) {
                         if (on_operation) on_operation(name);
                       }})) {}

  Arithmetic& operator*() { return *ops_; }

 private:
  std::unique_ptr<Ops> cpu_;  // never called
  std::unique_ptr<Arithmetic> ops_;
};

}  // namespace pagedinfer
