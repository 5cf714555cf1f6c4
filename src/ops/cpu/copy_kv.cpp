#include "ops/cpu/copy_kv.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/kv_layout.h"
#include "ops/cpu/kv_types.h"

namespace pagedinfer {

void copy_positions(const KvLayer& cache, int head, int64_t source, int64_t destination,
                    int64_t count) {
  const int64_t row_bytes = cache.k.cols * size_of(cache.k.dtype);
  const int64_t unit_bytes = key_unit_bytes(cache.k.dtype), num_units = row_bytes / unit_bytes;
  char* const keys = static_cast<char*>(cache.k.data);
  char* const values = static_cast<char*>(cache.v.data);
  for (int64_t i = 0; i < count;) {
    const int64_t from = kv_row(source + i, head, cache.kv_heads);
    const int64_t to = kv_row(destination + i, head, cache.kv_heads);
    // The keys of a group of positions are one piece of memory, those of a single one are not.
    const bool is_group =
        from % kGroupPositions == 0 && to % kGroupPositions == 0 && count - i >= kGroupPositions;
    const int64_t rows = is_group ? kGroupPositions : 1;
    std::memcpy(values + to * row_bytes, values + from * row_bytes,
                static_cast<size_t>(rows * row_bytes));
    if (is_group) {
      std::memcpy(keys + to * row_bytes, keys + from * row_bytes,
                  static_cast<size_t>(rows * row_bytes));
    } else {
      for (int64_t unit = 0; unit < num_units; ++unit) {
        std::memcpy(keys + unit_bytes * key_unit(to, unit, num_units),
                    keys + unit_bytes * key_unit(from, unit, num_units),
                    static_cast<size_t>(unit_bytes));
      }
    }
    if (has_scales(cache.k.dtype)) {
      std::copy_n(cache.k_scale.row<float>(from), rows, cache.k_scale.row<float>(to));
      std::copy_n(cache.v_scale.row<float>(from), rows, cache.v_scale.row<float>(to));
    }
    i += rows;
  }
}

}  // namespace pagedinfer
