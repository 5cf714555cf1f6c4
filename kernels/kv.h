// Writes to the cache, without arithmetic. Bound by memory.
#pragma once

#include "kernels/kv_layout.h"
#include "kernels/types.h"

namespace pagedinfer::kernels {

// launch_qkv() writes rows of int8.
struct WriteKvArgs {
  Type type;                    // of k, v and the cache
  Matrix k, v;                  // (num_rows, kv_heads * head_dim)
  const int32_t* slot_mapping;  // (num_rows) cache positions; -1: the row is skipped
  int64_t num_rows;
  KvCache cache;
};
void launch_write_kv(const WriteKvArgs& args, cudaStream_t stream);

// Copies runs of positions to other positions of the same cache: keys and values of every head.
// REQUIRES: no copy writes what another copy of the launch reads or writes; they run in any order.
struct CopyKvArgs {
  Type type;              // of the cache, unless it is int8
  const int32_t* from;    // (num_copies) first positions
  const int32_t* to;      // (num_copies)
  const int32_t* counts;  // (num_copies) positions of each copy
  int num_copies;
  KvCache cache;
};
void launch_copy_kv(const CopyKvArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
