#pragma once

#include <memory>
#include <string_view>

#include "core/cpu_isa.h"
#include "core/cpu_list.h"
#include "ops/attention_shape.h"
#include "ops/backend_info.h"
#include "ops/cpu/tuning.h"
#include "ops/ops.h"

namespace pagedinfer {

// The instruction sets that this processor and its system support, slowest first.
std::vector<CpuIsa> available_isas();
const char* name_of(CpuIsa isa);

struct CpuOptions {
  CpuIsa isa = CpuIsa::kPortable;
  int num_threads = 1;
  // kBF16: products round their input to bfloat16; weights are bfloat16. kF32: products convert
  // weights of any type to float32 and round nothing. Sums are float32 in both.
  DType compute = DType::kBF16;
  // upload_matrix() copies bfloat16 weights into the order in which products read them fastest.
  // REQUIRES: can_pack().
  bool packs_weights = false;
  Tuning tuning = tuning_of_processor();
  CpuList cpus = {};  // thread i runs on the i-th only, but the first on any; empty: anywhere
  AttentionShape attention = {};  // of all steps, for DeviceMemory::thread_bytes()
};

// Whether this type of computation has an order of packed weights.
bool can_pack(DType compute);

// A backend on this processor. Results have the same bits for every isa and num_threads.
// REQUIRES: isa is among available_isas().
std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options);

extern const BackendInfo kCpuInfo;

}  // namespace pagedinfer
