// Where the cache keeps what: keys and values alike (kv_heads, num_positions, row), a row being
// head_dim elements and a padding up to a multiple of 16 bytes that nobody reads.
//
// Head-major, because attention reads one head of many positions: the positions of a block then
// follow each other in memory, whole DRAM pages of them, and a copy of a block moves one long run
// per head. Rows, not columns, of keys: ldmatrix turns them where tensor cores want columns.
#pragma once

#include "kernels/host_device.h"
#include "kernels/types.h"

namespace pagedinfer::kernels {

KERNEL_HD constexpr int kv_row_elements(int head_dim, int element_bytes) {
  const int granule = 16 / element_bytes;
  return (head_dim + granule - 1) / granule * granule;
}

// Bytes of the keys, or of the values, of one position.
constexpr int64_t kv_position_bytes(Type type, int kv_heads, int head_dim) {
  return int64_t{kv_heads} * kv_row_elements(head_dim, bytes_of(type)) * bytes_of(type);
}

// Element at which a position's row begins.
KERNEL_HD constexpr int64_t kv_offset(int head, int64_t position, int64_t num_positions,
                                      int row_elements) {
  return (head * num_positions + position) * row_elements;
}

struct KvCache {
  void *k, *v;  // 16-byte aligned
  int kv_heads, head_dim;
  int64_t num_positions;
};

}  // namespace pagedinfer::kernels
