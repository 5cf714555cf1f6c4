// Writes and copies positions of the CPU's cache, of any type. The kernels do not include this.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "ops/cpu/kernels.h"
#include "ops/kv_layer.h"

namespace pagedinfer {

// Keys are interleaved in units (kv_layout.h): of one number, but for bfloat16 of two.
constexpr int64_t key_unit_bytes(DType type) { return type == DType::kBF16 ? 4 : size_of(type); }

// Copies the keys and values of `count` positions of one head from `source` on to those from
// `destination` on, as kv_layout.h lays them out. REQUIRES: the two runs do not overlap.
void copy_positions(const KvLayer& cache, int head, int64_t source, int64_t destination,
                    int64_t count);

// Rounds the keys and values of one token, for every head, to the type of the cache and writes them
// to position `slot`, as kv_layout.h lays them out. Slot -1: to none.
void write_position(const Kernels& kernels, const float* key, const float* value,
                    const KvLayer& cache, int64_t slot);

}  // namespace pagedinfer
