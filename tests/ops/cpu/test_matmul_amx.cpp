// The product on AMX tiles, with plain loops in place of the processor's tiles, so that its layout,
// its tails and what it reads are tested on every machine. test_matmul.cpp runs the real tiles if
// the processor has them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/denormals.h"
#include "ops/cpu/amx_kernel.h"
#include "tests/support/plain_tiles.h"
#include "tests/support/product_reference.h"

namespace pagedinfer {

namespace {

class LoopTiles : public PlainTiles {
 public:
  // Per sum one fma chain from +0 over the even and one over the odd columns.
  template <int kSums, int kLeft, int kRight>
  static void multiply() {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) {
        float chain[2] = {0, 0};
        for (int pair = 0; pair < 16; ++pair) {
          const uint32_t left = tile[kLeft][i][pair], right = tile[kRight][pair][j];
          for (int odd = 0; odd < 2; ++odd) {
            chain[odd] =
                std::fma(from_bf16_bits(static_cast<uint16_t>(left >> 16 * odd)),
                         from_bf16_bits(static_cast<uint16_t>(right >> 16 * odd)), chain[odd]);
          }
        }
        float sum = std::bit_cast<float>(tile[kSums][i][j]);
        sum = sum + (chain[0] + chain[1]);
        tile[kSums][i][j] = std::bit_cast<uint32_t>(sum);
      }
    }
  }
};

void to_bf16(const float* x, bf16* y, int64_t n) { store_numbers(x, n, DType::kBF16, y); }

void check_shape(std::mt19937& random, int rows, int k, int n, Numbers numbers, bool split) {
  CAPTURE(rows);
  CAPTURE(k);
  CAPTURE(n);
  const FlushDenormals guard;
  const int x_stride = k + 3, y_stride = n + 2;
  const int64_t stride = k + static_cast<int>(random() % 3);
  const std::vector<float> x = random_numbers(random, size_t(rows) * x_stride, numbers);
  std::vector<float> w = random_numbers(random, size_t(n) * k, numbers);
  for (float& a : w) a = rounded(a);
  GuardedBytes weights(((n - 1) * stride + k) * sizeof(bf16));
  for (int j = 0; j < n; ++j) {
    store_numbers(&w[size_t(j) * k], k, DType::kBF16, weights.data() + j * stride * sizeof(bf16));
  }
  const auto below = [&](int count) { return static_cast<int>(random() % count); };
  const GuardedBytes packed(size_t((rows + 15) / 16) * 16 * ((k + 31) / 32) * 64);
  for (int first = 0; first < rows;) {
    const int last = std::min(rows, first + 16 * (1 + below(3)));
    pack_tiles({x.data(), x_stride, rows, k, first, last, packed.data()}, to_bf16);
    first = last;
  }
  std::vector<float> y(size_t(rows) * y_stride, -1.0f), right = y;
  for (int first_row = 0; first_row < rows;) {
    const int last_row = split ? std::min(rows, first_row + 16 * (1 + below(4))) : rows;
    for (int first = 0; first < n;) {
      const int last = split ? std::min(n, first + 1 + below(n)) : n;
      matmul_tiles<LoopTiles>({.packed = packed.data(),
                               .num_rows = rows,
                               .k = k,
                               .weights = weights.data(),
                               .weight_stride = stride,
                               .y = y.data(),
                               .y_stride = y_stride,
                               .first_row = first_row,
                               .last_row = last_row,
                               .first = first,
                               .last = last});
      first = last;
    }
    first_row = last_row;
  }
  for (int m = 0; m < rows; ++m) {
    for (int j = 0; j < n; ++j) {
      right[size_t(m) * y_stride + j] = amx_order(&x[size_t(m) * x_stride], &w[size_t(j) * k], k);
    }
  }
  CHECK(num_different(y, right) == 0);
}

}  // namespace

TEST_CASE("a product on tiles is the plain loop's") {
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < 120; ++i) {
    check_shape(random, 1 + below(i % 4 ? 20 : 70), 1 + below(i % 3 ? 100 : 700), 1 + below(80),
                static_cast<Numbers>(i % kNumKindsOfNumbers), i % 2);
  }
  for (const int k : {32, 512, 513, 544, 1024}) {
    for (const int rows : {1, 16, 17, 32, 33}) {
      check_shape(random, rows, k, 64, Numbers::kNormal, false);
    }
  }
}

}  // namespace pagedinfer
