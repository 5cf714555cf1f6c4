#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core/check.h"
#include "ops/cpu/cpu_arithmetic.h"
#include "ops/cpu/cpu_memory.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/cpu_state.h"
#include "ops/cpu/cpu_steps.h"
#include "ops/cpu/cpu_timing.h"

namespace pagedinfer {
namespace {

class CpuBackend final : public Ops {
 public:
  explicit CpuBackend(const CpuOptions& options) : state_(options) {}

  DeviceMemory& memory() override { return memory_; }
  StepProtocol& steps() override { return steps_; }
  Arithmetic& arithmetic() override { return arithmetic_; }
  Timing& timing() override { return timing_; }

  std::string description() const override {
    const int num_threads = state_.options.num_threads;
    return fmt::format("cpu ({}, {} thread{})", name_of(state_.options.isa), num_threads,
                       num_threads == 1 ? "" : "s");
  }

 private:
  CpuState state_;
  CpuArithmetic arithmetic_{state_};
  CpuSteps steps_{state_};
  CpuTiming timing_{state_};
  CpuMemory memory_{state_, arithmetic_, steps_};
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options) {
  const auto isas = available_isas();
  CHECK(std::ranges::find(isas, options.isa) != isas.end());
  CHECK(options.compute == DType::kF32 || options.compute == DType::kBF16);
  return std::make_unique<CpuBackend>(options);
}

}  // namespace pagedinfer
