// Products on the CPU against a plain loop in the defined order of additions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "core/denormals.h"
#include "ops/cpu/bf16.h"
#include "ops/cpu/cpu_matmul.h"
#include "ops/cpu/cpu_ops.h"
#include "tests/support/product_reference.h"

namespace pagedinfer {

namespace {

// One call of Ops::matmul: the input, and weights of each product as the file has them.
struct Case {
  DType compute, type;
  int rows, k;
  int64_t stride = 0;  // of the weights; 0 = k
  std::vector<int> outputs;
  std::vector<float> x;
  std::vector<std::vector<float>> weights;  // exact in `type`

  int64_t weight_stride() const { return stride ? stride : k; }
};

Case random_case(std::mt19937& random, DType compute, DType type, int rows, int k,
                 std::vector<int> outputs, Numbers numbers) {
  Case c = {compute, type, rows, k, 0, std::move(outputs), {}, {}};
  c.x = random_numbers(random, size_t(rows) * k, numbers);
  for (const int n : c.outputs) {
    c.weights.push_back(random_numbers(random, size_t(n) * k, numbers));
    for (float& w : c.weights.back()) w = as_stored(w, type);
  }
  return c;
}

// Rows [first, last) of the input through `ops`: the outputs of all products, one after another.
std::vector<float> multiply(Ops& ops, const Case& c, int first, int last) {
  std::vector<std::unique_ptr<GuardedBytes>> memory;
  std::vector<std::vector<float>> out;
  std::vector<Product> products;
  const int rows = last - first;
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const int n = c.outputs[i];
    const int64_t stride = c.weight_stride(), size = size_of(c.type);
    memory.push_back(std::make_unique<GuardedBytes>(((n - 1) * stride + c.k) * size));
    for (int j = 0; j < n; ++j) {
      store_numbers(&c.weights[i][size_t(j) * c.k], c.k, c.type,
                    memory.back()->data() + j * stride * size);
    }
    out.emplace_back(size_t(rows) * (n + 3), -1.0f);
    const Tensor weights = {memory.back()->data(), c.type, n, c.k, stride};
    products.push_back(
        {ops.memory().packs(c.type) ? ops.memory().upload_matrix(weights, c.type) : weights,
         {out.back().data(), DType::kF32, rows, n, n + 3}});
  }
  // The rows of x are apart too.
  std::vector<float> x(size_t(rows) * (c.k + 5));
  for (int m = 0; m < rows; ++m) {
    std::copy_n(&c.x[size_t(first + m) * c.k], c.k, &x[size_t(m) * (c.k + 5)]);
  }
  ops.arithmetic().matmul({x.data(), DType::kF32, rows, c.k, c.k + 5}, products);
  std::vector<float> all;
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const int n = c.outputs[i];
    for (int m = 0; m < rows; ++m) {
      const float* row = &out[i][size_t(m) * (n + 3)];
      all.insert(all.end(), row, row + n);
      if (std::any_of(row + n, row + n + 3, [](float y) { return y != -1.0f; })) {
        all.push_back(NAN);  // something else was written
      }
    }
  }
  return all;
}

std::vector<float> expected(const Case& c) {
  std::vector<float> all;
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    for (int m = 0; m < c.rows; ++m) {
      for (int n = 0; n < c.outputs[i]; ++n) {
        const float *x = &c.x[size_t(m) * c.k], *w = &c.weights[i][size_t(n) * c.k];
        all.push_back(c.compute == DType::kBF16 ? amx_order(x, w, c.k) : interleaved(x, w, c.k));
      }
    }
  }
  return all;
}

// Every instruction set with one thread and with several, with weights in place and packed.
std::vector<std::unique_ptr<Ops>> all_ops(DType compute) {
  std::vector<std::unique_ptr<Ops>> all;
  for (const CpuIsa isa : available_isas()) {
    for (const int threads : {1, 3}) {
      all.push_back(make_cpu_ops({isa, threads, compute}));
      if (!can_pack(compute)) continue;
      for (const bool tall : {false, true}) {
        all.push_back(make_cpu_ops({isa, threads, compute, true, {.tall_tiles = tall}}));
      }
    }
  }
  return all;
}

void check_case(const std::vector<std::unique_ptr<Ops>>& all, const Case& c) {
  const FlushDenormals guard;
  const std::vector<float> right = expected(c);
  for (const auto& ops : all) {
    CAPTURE(ops->description());
    CAPTURE(c.rows);
    CAPTURE(c.k);
    CAPTURE(c.outputs[0]);
    CHECK(num_different(multiply(*ops, c, 0, c.rows), right) == 0);
  }
}

struct Types {
  DType compute, weight;
};
constexpr Types kTypes[] = {{DType::kBF16, DType::kBF16},
                            {DType::kF32, DType::kF32},
                            {DType::kF32, DType::kBF16},
                            {DType::kF32, DType::kF16}};

}  // namespace

TEST_CASE("products are the plain loop's, on every instruction set and number of threads") {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (const Types types : kTypes) {
    const auto all = all_ops(types.compute);
    for (int i = 0; i < 48; ++i) {
      const auto numbers = static_cast<Numbers>(i % kNumKindsOfNumbers);
      std::vector<int> outputs(1 + below(3));
      for (int& n : outputs) n = 1 + below(i % 2 ? 20 : 90);
      Case c = random_case(random, types.compute, types.weight, 1 + below(i % 3 ? 12 : 40),
                           1 + below(i % 4 ? 100 : 600), outputs, numbers);
      if (i % 5 == 0) c.stride = c.k + below(9);
      check_case(all, c);
    }
  }
}

TEST_CASE("products of sizes at the edges of blocks are the plain loop's") {
  std::mt19937 random(2);
  for (const Types types : kTypes) {
    const auto all = all_ops(types.compute);
    for (const int k : {1, 31, 32, 33, 128, 160, 255, 256, 257}) {
      for (const int rows : {1, 8, 9, 25}) {
        check_case(all, random_case(random, types.compute, types.weight, rows, k, {31, 32, 1},
                                    Numbers::kNormal));
      }
    }
    check_case(all,
               random_case(random, types.compute, types.weight, 150, 900, {33}, Numbers::kNormal));
    check_case(all,
               random_case(random, types.compute, types.weight, 261, 129, {33}, Numbers::kNormal));
    check_case(
        all, random_case(random, types.compute, types.weight, 70, 40, {600, 5}, Numbers::kNormal));
    check_case(all,
               random_case(random, types.compute, types.weight, 2, 2048, {48}, Numbers::kNormal));
  }
}

TEST_CASE("a row of a product does not depend on the rows beside it") {
  std::mt19937 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (const Types types : kTypes) {
    const auto all = all_ops(types.compute);
    const int rows = 150;
    const Case c =
        random_case(random, types.compute, types.weight, rows, 200, {40}, Numbers::kNormal);
    const std::vector<float> whole = multiply(*all[0], c, 0, rows);
    for (const auto& ops : all) {
      CAPTURE(ops->description());
      for (int i = 0; i < 20; ++i) {
        const int first = below(rows), last = first + 1 + below(i % 2 ? rows - first : 1);
        const std::vector<float> part = multiply(*ops, c, first, last);
        const std::vector<float> same(whole.begin() + first * 40, whole.begin() + last * 40);
        CHECK(num_different(part, same) == 0);
      }
    }
  }
}

TEST_CASE("a product reads weights at any even address") {
  std::mt19937 random(4);
  for (const Types types : kTypes) {
    const Case c = random_case(random, types.compute, types.weight, 5, 70, {35}, Numbers::kNormal);
    const FlushDenormals guard;
    const std::vector<float> right = expected(c);
    for (const auto& ops : all_ops(types.compute)) {
      std::vector<char> memory(35 * 70 * 4 + 64);
      for (int offset = 0; offset < 64; offset += 14) {
        store_numbers(c.weights[0].data(), 35 * 70, types.weight, memory.data() + offset);
        std::vector<float> out(right.size()), x = c.x;
        const Product product = {{memory.data() + offset, types.weight, 35, 70, 70},
                                 {out.data(), DType::kF32, 5, 35, 35}};
        ops->arithmetic().matmul({x.data(), DType::kF32, 5, 70, 70}, {&product, 1});
        CHECK(num_different(out, right) == 0);
      }
    }
  }
}

TEST_CASE("packed weights are those of the checkpoint, rounded to bfloat16") {
  std::mt19937 random(5);
  for (const DType stored : {DType::kBF16, DType::kF32, DType::kF16}) {
    for (const auto& [rows, cols] : {std::pair(1, 1), {33, 31}, {70, 100}, {64, 32}, {15, 33}}) {
      std::vector<float> numbers = random_numbers(random, size_t(rows) * cols, Numbers{});
      for (float& w : numbers) w = as_stored(w, stored);
      GuardedBytes memory(int64_t{rows} * cols * size_of(stored));
      store_numbers(numbers.data(), rows * cols, stored, memory.data());
      const auto ops = make_cpu_ops({CpuIsa::kPortable, 2, DType::kBF16, true});
      const Tensor host = {memory.data(), stored, rows, cols, cols};
      REQUIRE(ops->memory().packs(DType::kBF16));
      const auto padded = [](int n) { return (n + 31) / 32 * 32; };
      CHECK(ops->memory().matrix_bytes(host, DType::kBF16) == 2 * padded(rows) * padded(cols));
      const int64_t held = ops->memory().held_bytes();
      const Tensor packed = ops->memory().upload_matrix(host, DType::kBF16);
      CHECK(ops->memory().held_bytes() - held == ops->memory().matrix_bytes(host, DType::kBF16));
      std::vector<int32_t> tokens(static_cast<size_t>(rows));
      std::iota(tokens.begin(), tokens.end(), 0);
      std::vector<float> out(numbers.size());
      ops->arithmetic().embed(packed, {tokens.data(), DType::kI32, rows, 1, 1}, 1.0f,
                              {out.data(), DType::kF32, rows, cols, cols});
      for (float& w : numbers) w = as_stored(w, DType::kBF16);
      CHECK(num_different(out, numbers) == 0);
    }
  }
}

}  // namespace pagedinfer
