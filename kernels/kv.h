// Writes to the cache that do no arithmetic. Bound by memory.
#pragma once

#include "kernels/kv_layout.h"
#include "kernels/types.h"

namespace pagedinfer::kernels {

struct WriteKvArgs {
  Type type;                    // of k, v and the cache
  Matrix k, v;                  // (num_rows, kv_heads * head_dim)
  const int32_t* slot_mapping;  // (num_rows); a row of -1 is written nowhere
  int64_t num_rows;
  KvCache cache;
};
void launch_write_kv(const WriteKvArgs& args, cudaStream_t stream);

// Copies runs of positions to other positions of the same cache, keys and values of every head.
// The copies of one launch run in no order: a destination is no other copy's source or
// destination.
struct CopyKvArgs {
  Type type;
  const int32_t* from;  // (num_copies) first positions
  const int32_t* to;    // (num_copies)
  int num_copies;
  int positions;  // of each copy
  KvCache cache;
};
void launch_copy_kv(const CopyKvArgs& args, cudaStream_t stream);

}  // namespace pagedinfer::kernels
