// A matrix of low rank that is added to a matrix of weights when that is uploaded.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/tensor.h"
#include "ops/row_source.h"

namespace pagedinfer {

// scale * (b a), of any types that a checkpoint may have. docs/numerics.md defines the sum.
struct LowRank {
  Tensor a;                     // (rank, cols)
  Tensor b;                     // (rows, rank)
  bool are_transposed = false;  // a is (cols, rank) and b is (rank, rows)
  float scale = 1.0f;
  // Steps in the tensors: from one number along the rank to the next, in b (in a if they are
  // transposed), and from one row of b to the next.
  int64_t rank_step = 1, row_step = 1;

  int64_t rank() const { return are_transposed ? b.rows : a.rows; }
};

// One row of it.
struct LowRankRow {
  const float* factors;  // (rank), of b
  const float* a;        // (rank, cols)
  int64_t rank, cols;
  float scale;
};
// Adds columns [first, first + n) of the row to `y`.
void add_low_rank(const LowRankRow& row, int64_t first, int64_t n, float* y);

using AddLowRank = std::function<void(const LowRankRow& row, int64_t first, int64_t n, float* y)>;

// matrix + update. `add` is add_low_rank(), or one with the same bits. The matrix and the update
// must outlive the result.
RowSource sum_of(RowSource matrix, const LowRank& update, AddLowRank add);

}  // namespace pagedinfer
