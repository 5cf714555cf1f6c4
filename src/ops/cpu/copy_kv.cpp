#include "ops/cpu/copy_kv.h"

#include <cstring>

#include "ops/cpu/kv_layout.h"

namespace pagedinfer {

void copy_positions(const KvLayer& cache, int head, int64_t source, int64_t destination,
                    int64_t count) {
  const int64_t row_bytes = cache.k.cols * size_of(cache.k.dtype), num_dwords = row_bytes / 4;
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
      for (int64_t dword = 0; dword < num_dwords; ++dword) {
        std::memcpy(keys + 4 * key_dword(to, dword, num_dwords),
                    keys + 4 * key_dword(from, dword, num_dwords), 4);
      }
    }
    i += rows;
  }
}

}  // namespace pagedinfer
