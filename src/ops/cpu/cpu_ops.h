#pragma once

#include <memory>
#include <string_view>

#include "core/cpu_isa.h"
#include "ops/backend_info.h"
#include "ops/ops.h"

namespace pagedinfer {

// The instruction sets this processor (and system) can run, slowest first.
std::vector<CpuIsa> available_isas();
const char* name_of(CpuIsa isa);

struct CpuOptions {
  CpuIsa isa = CpuIsa::kPortable;
  int num_threads = 1;
  // kBF16: products round their input to bfloat16 and take bfloat16 weights. kF32: products
  // widen weights of any type and round nothing. Sums are float32 in both.
  DType compute = DType::kBF16;
};

// A backend on this processor. Every result is the same bits for every isa and num_threads.
// REQUIRES: isa is among available_isas().
std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options);

extern const BackendInfo kCpuInfo;

}  // namespace pagedinfer
