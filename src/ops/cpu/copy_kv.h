#pragma once

#include <cstdint>

#include "ops/kv_layer.h"

namespace pagedinfer {

// Copies the keys and values of `count` positions of one head from `source` on to those from
// `destination` on, as kv_layout.h lays them out. REQUIRES: the two runs do not overlap.
void copy_positions(const KvLayer& cache, int head, int64_t source, int64_t destination,
                    int64_t count);

}  // namespace pagedinfer
