#pragma once

#include <cstdint>

#include "ops/cpu/kernels.h"
#include "ops/kv_layer.h"

namespace pagedinfer {

// Rounds the keys and values of one token, for every head, to the type of the cache and writes them
// to position `slot`, as kv_layout.h lays them out. Slot -1: to none.
void write_position(const Kernels& kernels, const float* key, const float* value,
                    const KvLayer& cache, int64_t slot);

}  // namespace pagedinfer
