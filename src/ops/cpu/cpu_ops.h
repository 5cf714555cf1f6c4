#pragma once

#include <memory>
#include <string_view>

#include "core/cpu_isa.h"
#include "core/cpu_list.h"
#include "ops/attention_shape.h"
#include "ops/backend_info.h"
#include "ops/ops.h"

namespace pagedinfer {

// The instruction sets that this processor and its system support, slowest first.
std::vector<CpuIsa> available_isas();
const char* name_of(CpuIsa isa);

// Whether this processor shifts and masks vectors on the ports that multiply them, as Intel's do.
// Products with packed weights or codes are then faster in tiles that widen fewer weights.
bool prefers_tall_tiles();

// How many bytes of the first-level cache prefetched weights may fill. AMD's processors read
// weights fastest if they come to it shortly before their use: their own prefetcher then runs
// ahead. 0: weights are prefetched to the second level, from a larger distance.
int near_prefetch_bytes();

struct CpuOptions {
  CpuIsa isa = CpuIsa::kPortable;
  int num_threads = 1;
  // kBF16: products round their input to bfloat16; weights are bfloat16. kF32: products convert
  // weights of any type to float32 and round nothing. Sums are float32 in both.
  DType compute = DType::kBF16;
  // upload_matrix() copies bfloat16 weights into the order in which products read them fastest.
  // REQUIRES: can_pack().
  bool packs_weights = false;
  bool tall_tiles = prefers_tall_tiles();  // of products with packed weights or codes
  int near_bytes = near_prefetch_bytes();  // of products with codes
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
