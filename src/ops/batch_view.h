#pragma once

#include <span>

#include "core/batch.h"
#include "core/tensor.h"

namespace pagedinfer {

// A Batch in memory that the device can read: columns of int32. Placeholder tokens are replaced.
struct BatchView {
  std::span<const KvCopy> copies = {};  // the Batch's own, on the host
  Tensor tokens, positions, slot_mapping, query_starts, context_lens, block_table, logit_tokens;
  int max_blocks = 0;
  int block_size = 0;
};

// Number i of a column of a BatchView. REQUIRES: the device's memory is the host's.
inline int32_t int_at(const Tensor& column, int64_t i) { return *column.row<int32_t>(i); }

}  // namespace pagedinfer
