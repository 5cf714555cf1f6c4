// The layout of the cache. Keys and values alike are (kv_heads, num_positions, row), where a row is
// head_dim elements, padded to a multiple of 16 bytes. The padding is never read. Rows of int8 have
// a scale each: (kv_heads, num_positions) for keys and for values.
//
// The layout is head-major because attention reads many positions of one head: the positions of a
// block are adjacent in memory and fill whole DRAM pages, and a copy of a block is one long run per
// head. Keys are rows; ldmatrix transposes them where tensor cores need columns.
#pragma once

#include "kernels/host_device.h"
#include "kernels/types.h"

namespace pagedinfer::kernels {

// Elements of a row, padding included.
KERNEL_HD constexpr int kv_row_elements(int head_dim, int element_bytes) {
  const int granule = 16 / element_bytes;
  return (head_dim + granule - 1) / granule * granule;
}

// Bytes that the keys of one position take up without scales; the values take up as many.
constexpr int64_t kv_position_bytes(int element_bytes, int kv_heads, int head_dim) {
  return int64_t{kv_heads} * kv_row_elements(head_dim, element_bytes) * element_bytes;
}
constexpr int64_t kv_position_bytes(Type type, int kv_heads, int head_dim) {
  return kv_position_bytes(bytes_of(type), kv_heads, head_dim);
}

// The first element of a position's row.
KERNEL_HD constexpr int64_t kv_offset(int head, int64_t position, int64_t num_positions,
                                      int row_elements) {
  return (head * num_positions + position) * row_elements;
}

struct KvCache {
  void *k, *v;  // 16-byte aligned
  int kv_heads, head_dim;
  int64_t num_positions;
  float *k_scale = nullptr, *v_scale = nullptr;  // of rows of int8; nullptr: another type

  KERNEL_HD bool is_int8() const { return k_scale != nullptr; }
};

}  // namespace pagedinfer::kernels
