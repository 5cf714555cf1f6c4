#include "ops/low_rank.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "ops/stored_rows.h"

namespace pagedinfer {
namespace {

// Of `a`, which all rows read, that are added at a time: they stay in the cache.
constexpr int64_t kColumns = 256;

// `a` as float32, (rank, cols).
std::vector<float> widened_a(const LowRank& update) {
  const int64_t rank = update.rank();
  const int64_t cols = update.are_transposed ? update.a.rows : update.a.cols;
  std::vector<float> a(static_cast<size_t>(rank * cols));
  for (int64_t k = 0; k < rank; ++k) {
    for (int64_t i = 0; i < cols; ++i) {
      a[static_cast<size_t>(k * cols + i)] =
          update.are_transposed ? stored_number(update.a, i, k) : stored_number(update.a, k, i);
    }
  }
  return a;
}

// Row `row` of b.
void read_factors(const LowRank& update, int64_t row, float* factors) {
  for (int64_t k = 0; k < update.rank(); ++k) {
    factors[k] =
        update.are_transposed ? stored_number(update.b, k, row) : stored_number(update.b, row, k);
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
  std::vector<float> a = widened_a(update);
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
            for (int64_t column = 0; column < cols; column += kColumns) {
              const int64_t n = std::min(kColumns, cols - column);
              for (int64_t i = 0; i < count; ++i) {
                add({factors.data() + i * rank, a.data(), rank, cols, update.scale}, column, n,
                    out + i * cols + column);
              }
            }
          }};
}

}  // namespace pagedinfer
