#include "ops/low_rank.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace pagedinfer {
namespace {

// Columns of `a`, which all rows read, that are added at a time: few enough to stay in the nearest
// cache, and a multiple of what kernels add at a time.
int64_t panel_columns(int64_t rank) {
  constexpr int64_t kNumbers = 4096, kUnit = 128, kMax = 512;
  return std::clamp(kNumbers / rank / kUnit * kUnit, kUnit, kMax);
}

// `a` as float32 in panels of so many columns, of (rank, columns) each. Rows of a whole matrix
// would lie at distances that evict each other from a cache.
std::vector<float> panels_of_a(const LowRank& update, int64_t columns) {
  const int64_t rank = update.rank();
  const int64_t cols = update.are_transposed ? update.a.rows : update.a.cols;
  std::vector<float> a;
  a.reserve(static_cast<size_t>(rank * cols));
  for (int64_t begin = 0; begin < cols; begin += columns) {
    const int64_t end = std::min(cols, begin + columns);
    for (int64_t k = 0; k < rank; ++k) {
      for (int64_t i = begin; i < end; ++i) {
        a.push_back(update.are_transposed ? stored_number(update.a, i, k * update.rank_step)
                                          : stored_number(update.a, k, i));
      }
    }
  }
  return a;
}

// Row `row` of b.
void read_factors(const LowRank& update, int64_t row, float* factors) {
  for (int64_t k = 0; k < update.rank(); ++k) {
    const int64_t stored = row * update.row_step;
    factors[k] = update.are_transposed ? stored_number(update.b, k, stored)
                                       : stored_number(update.b, stored, k * update.rank_step);
  }
}

}  // namespace

void add_low_rank(const LowRankRow& row, int64_t first, int64_t n, float* y) {
  constexpr int64_t kPiece = 256;
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    const int64_t size = std::min(kPiece, n - begin);
    float sums[kPiece] = {};
    for (int64_t k = 0; k < row.rank; ++k) {
      const float* const a = row.a + k * row.cols + first + begin;
      for (int64_t i = 0; i < size; ++i) sums[i] += row.factors[k] * a[i];
    }
    for (int64_t i = 0; i < size; ++i) y[begin + i] += sums[i] * row.scale;
  }
}

RowSource sum_of(RowSource matrix, const LowRank& update, AddLowRank add) {
  const int64_t rows = matrix.rows, cols = matrix.cols, rank = update.rank();
  const int64_t columns = panel_columns(rank);
  std::vector<float> a = panels_of_a(update, columns);
  CHECK(std::ssize(a) == rank * cols);
  CHECK((update.are_transposed ? update.b.cols : update.b.rows) == rows);
  return {rows, cols,
          [=, read = std::move(matrix.read), a = std::move(a), add = std::move(add)](
              int64_t first, int64_t count, float* out) {
            read(first, count, out);
            std::vector<float> factors(static_cast<size_t>(count * rank));
            for (int64_t i = 0; i < count; ++i) {
              read_factors(update, first + i, factors.data() + i * rank);
            }
            for (int64_t column = 0; column < cols; column += columns) {
              const int64_t n = std::min(columns, cols - column);
              const float* const panel = a.data() + column * rank;
              for (int64_t i = 0; i < count; ++i) {
                add({factors.data() + i * rank, panel, rank, n, update.scale}, 0, n,
                    out + i * cols + column);
              }
            }
          }};
}

}  // namespace pagedinfer
