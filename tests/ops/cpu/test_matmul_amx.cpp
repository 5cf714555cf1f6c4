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
#include "ops/cpu/packed_format.h"
#include "tests/support/plain_tiles.h"
#include "tests/support/product_reference.h"

namespace pagedinfer {

namespace {

void to_bf16(const float* x, bf16* y, int64_t n) { store_numbers(x, n, DType::kBF16, y); }

// Numbers that begin at a cache line.
class Output {
 public:
  explicit Output(size_t size) : memory_(size + 16, -1.0f) {}
  float* data() {
    return reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) / 64 * 64);
  }

 private:
  std::vector<float> memory_;
};

using Kernel = void (*)(const MatmulArgs&);

struct Weights {
  Kernel multiply;
  const char* data;
  int64_t stride;
  int part;  // outputs of a call are a multiple of it
};

// What lies between the rows of y must stay. `split`: in several calls, as several threads make
// them.
void check_product(std::mt19937& random, const Weights& weights, const std::vector<float>& x,
                   int rows, int k, int n, const std::vector<float>& right, bool split) {
  const auto below = [&](int count) { return static_cast<int>(random() % count); };
  const int x_stride = k + 3, y_stride = below(2) ? n + 2 : (n + 31) / 16 * 16;
  const size_t packed_bytes = size_t((rows + 15) / 16) * 16 * ((k + 31) / 32) * 64;
  const GuardedBytes packed(packed_bytes);
  std::memset(packed.data(), 0xff, packed_bytes);  // NaN
  for (int first = 0; first < rows;) {
    const int last = std::min(rows, first + 16 * (1 + below(3)));
    for (int column = 0; column < k;) {
      const int end = split ? std::min(k, column + 128 * (1 + below(5))) : k;
      pack_tiles({&x[size_t(first) * x_stride + column], x_stride, rows, k, first, last, column,
                  end, packed.data()},
                 to_bf16);
      column = end;
    }
    first = last;
  }
  Output y(size_t(rows) * y_stride), scratch(kMultiplyScratch / sizeof(float));
  const bool streams_y = below(2) == 1;
  for (int first_row = 0; first_row < rows;) {
    const int last_row = split ? std::min(rows, first_row + 16 * (1 + below(4))) : rows;
    for (int first = 0; first < n;) {
      const int last =
          split ? std::min(n, first + weights.part * (1 + below(n) / weights.part)) : n;
      weights.multiply({.packed = packed.data(),
                        .num_rows = rows,
                        .k = k,
                        .weights = weights.data,
                        .weight_stride = weights.stride,
                        .y = y.data(),
                        .y_stride = y_stride,
                        .first_row = first_row,
                        .last_row = last_row,
                        .first = first,
                        .last = last,
                        .scratch = scratch.data(),
                        .streams_y = streams_y});
      first = last;
    }
    first_row = last_row;
  }
  std::vector<float> found;
  int written = 0;
  for (int m = 0; m < rows; ++m) {
    const float* const row = y.data() + int64_t{m} * y_stride;
    found.insert(found.end(), row, row + n);
    for (int j = n; j < y_stride; ++j) written += row[j] != -1.0f;
  }
  CHECK(num_different(found, right) == 0);
  CHECK(written == 0);
}

void check_shape(std::mt19937& random, int rows, int k, int n, Numbers numbers, bool split) {
  CAPTURE(rows);
  CAPTURE(k);
  CAPTURE(n);
  const FlushDenormals guard;
  const int64_t stride = k + static_cast<int>(random() % 3);
  const std::vector<float> x = random_numbers(random, size_t(rows) * (k + 3), numbers);
  std::vector<float> w = random_numbers(random, size_t(n) * k, numbers);
  for (float& a : w) a = rounded(a);
  std::vector<float> right;
  for (int m = 0; m < rows; ++m) {
    for (int j = 0; j < n; ++j) {
      right.push_back(amx_order(&x[size_t(m) * (k + 3)], &w[size_t(j) * k], k));
    }
  }
  GuardedBytes in_place(((n - 1) * stride + k) * sizeof(bf16));
  for (int j = 0; j < n; ++j) {
    store_numbers(&w[size_t(j) * k], k, DType::kBF16, in_place.data() + j * stride * sizeof(bf16));
  }
  GuardedBytes panels(size_t(kBf16Format.bytes(n, k)));
  for (int64_t first = 0; first < n; first += kPackedWeightRows) {
    const int64_t count = std::min<int64_t>(kPackedWeightRows, n - first);
    kBf16Format.pack_rows(kPortableKernels, {w.data() + first * k, DType::kF32, count, k, k}, first,
                          panels.data());
  }
  const Weights both[] = {
      {matmul_tiles<PlainBf16Tiles, InPlaceWeights>, in_place.data(), stride, 1},
      {matmul_tiles<PlainBf16Tiles, PanelWeights>, panels.data(), bf16_panel_size(k), kBf16Panel}};
  for (const Weights& weights : both) {
    CAPTURE(weights.part);
    check_product(random, weights, x, rows, k, n, right, split);
  }
}

}  // namespace

TEST_CASE("a product on tiles is the plain loop's") {
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < 120; ++i) {
    check_shape(random, 1 + below(i % 4 ? 20 : 70), 1 + below(i % 3 ? 100 : 700),
                1 + below(i % 5 ? 80 : 200), static_cast<Numbers>(i % kNumKindsOfNumbers), i % 2);
  }
}

TEST_CASE("a product on tiles of sizes at the edges of its blocks is the plain loop's") {
  std::mt19937 random(6);
  for (const int k : {32, 512, 513, 544, 1024}) {
    for (const int rows : {1, 16, 17, 32, 33, 65}) {
      check_shape(random, rows, k, 64, Numbers::kNormal, false);
    }
  }
  for (const int k : {2048, 2049, 4608}) {  // sums wait in memory
    for (const int rows : {20, 40, 64}) check_shape(random, rows, k, 70, Numbers::kNormal, false);
  }
  for (const int rows : {255, 256, 257, 300, 530}) {  // parts of 256 rows
    check_shape(random, rows, 600, 65, Numbers::kNormal, false);
  }
  check_shape(random, 300, 2600, 40, Numbers::kNormal, false);
  check_shape(random, 34, 2100, 2100, Numbers::kNormal, false);  // sums of 2,048 outputs
}

}  // namespace pagedinfer
