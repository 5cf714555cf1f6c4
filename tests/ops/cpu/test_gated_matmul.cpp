// The fused gate on the CPU against the operations that it is made of, one after another.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "core/denormals.h"
#include "ops/cpu/cpu_ops.h"
#include "tests/support/product_reference.h"

namespace pagedinfer {

namespace {

// A block of an MLP: its sizes, and numbers that are exact in the types of the weights.
struct Case {
  int rows, k, columns, outputs;
  Activation activation;
  std::vector<float> x, gate, up, down;
  std::vector<float> gate_bias, up_bias;  // or empty
  // Orders of the columns of kI4: 0 is their own, others are shuffled by this seed.
  unsigned gate_order = 0, up_order = 0, down_order = 0;
};

// The types of the weights. Those of gate and up may differ in a checkpoint with codes, that of
// down in one of float32 products too.
struct Types {
  DType compute, gate, up, down;
};
constexpr Types kTypes[] = {{DType::kBF16, DType::kBF16, DType::kBF16, DType::kBF16},
                            {DType::kBF16, DType::kI8, DType::kI8, DType::kI8},
                            {DType::kF32, DType::kF32, DType::kF32, DType::kF32},
                            {DType::kF32, DType::kBF16, DType::kBF16, DType::kF16},
                            {DType::kF32, DType::kI8, DType::kI8, DType::kI8},
                            {DType::kBF16, DType::kI4, DType::kI4, DType::kI4},
                            {DType::kBF16, DType::kI4, DType::kI8, DType::kI4},
                            {DType::kBF16, DType::kBF16, DType::kI4, DType::kI8},
                            {DType::kF32, DType::kI4, DType::kI4, DType::kBF16}};

Case random_case(std::mt19937& random, const Types& types, int rows, int k, int columns,
                 Numbers numbers) {
  Case c = {rows, k,  columns, 1 + static_cast<int>(random() % 40), Activation::kSilu, {}, {}, {},
            {},   {}, {}};
  if (random() % 2) c.activation = Activation::kGeluTanh;
  const auto weights = [&](int64_t count, DType type) {
    std::vector<float> w = random_numbers(random, static_cast<size_t>(count), Numbers::kNormal);
    for (float& number : w) number = as_stored(number, type);
    return w;
  };
  c.x = random_numbers(random, size_t(rows) * k, numbers);
  c.gate = weights(int64_t{columns} * k, types.gate);
  c.up = weights(int64_t{columns} * k, types.up);
  c.down = weights(int64_t{c.outputs} * columns, types.down);
  if (random() % 2) c.gate_bias = random_numbers(random, size_t(columns), numbers);
  if (random() % 2) c.up_bias = random_numbers(random, size_t(columns), Numbers::kNormal);
  if (random() % 3 == 0) c.gate_order = 1 + random() % 2;
  if (random() % 3 == 0) c.up_order = 1 + random() % 2;
  if (random() % 2) c.down_order = 1;
  return c;
}

// The device's form of the numbers; `memory` holds what it may only view.
Tensor upload(Ops& ops, std::vector<float>& numbers, int rows, int cols, DType type, unsigned order,
              std::vector<std::unique_ptr<GuardedBytes>>& memory) {
  const Tensor floats = {numbers.data(), DType::kF32, rows, cols, cols};
  if (type == DType::kI4) {
    CodeSource codes = rounded_to_codes(stored_rows(floats), rows % 2 ? 32 : 128);
    if (order > 0) {
      codes.column_order.resize(static_cast<size_t>(cols));
      std::iota(codes.column_order.begin(), codes.column_order.end(), 0);
      std::shuffle(codes.column_order.begin(), codes.column_order.end(), std::mt19937(order));
    }
    return ops.memory().upload_codes(codes);
  }
  if (type == DType::kI8) return ops.memory().upload_matrix(floats, type);
  memory.push_back(std::make_unique<GuardedBytes>(numbers.size() * size_t(size_of(type))));
  store_numbers(numbers.data(), std::ssize(numbers), type, memory.back()->data());
  return ops.memory().upload_matrix({memory.back()->data(), type, rows, cols, cols}, type);
}

Tensor row(std::vector<float>& numbers) {
  if (numbers.empty()) return {};
  return {numbers.data(), DType::kF32, 1, std::ssize(numbers), std::ssize(numbers)};
}

// Checks that the results of the product after the gate are equal.
void check_case(Ops& ops, const Types& types, Case c) {
  INFO(ops.description() << ", " << name_of(types.gate) << ", " << name_of(types.up) << ", "
                         << name_of(types.down) << ": " << c.rows << " x " << c.k << " x "
                         << c.columns << ", orders " << c.gate_order << ", " << c.up_order << ", "
                         << c.down_order);
  std::vector<std::unique_ptr<GuardedBytes>> memory;
  const int x_stride = c.k + 3;
  std::vector<float> x(size_t(c.rows) * x_stride);
  for (int m = 0; m < c.rows; ++m) {
    std::copy_n(&c.x[size_t(m) * c.k], c.k, &x[size_t(m) * x_stride]);
  }
  const Tensor input = {x.data(), DType::kF32, c.rows, c.k, x_stride};
  const Tensor shape = {nullptr, DType::kF32, c.rows, c.columns, c.columns};
  GatedProducts products = {
      .gate = {upload(ops, c.gate, c.columns, c.k, types.gate, c.gate_order, memory), shape},
      .up = {upload(ops, c.up, c.columns, c.k, types.up, c.up_order, memory), shape},
      .gate_bias = row(c.gate_bias),
      .up_bias = row(c.up_bias),
      .activation = c.activation};
  const Tensor down = upload(ops, c.down, c.outputs, c.columns, types.down, c.down_order, memory);
  const auto finish = [&](const Tensor& gated) {
    std::vector<float> y(size_t(c.rows) * c.outputs, -1.0f);
    const Product product = {down, {y.data(), DType::kF32, c.rows, c.outputs, c.outputs}};
    ops.arithmetic().matmul(gated, {&product, 1});
    return y;
  };
  REQUIRE(ops.arithmetic().fuses_gate());
  Tensor fused = shape;
  ops.arithmetic().gated_matmul(input, products, down, fused);
  const std::vector<float> result = finish(fused);

  std::vector<float> gate(size_t(c.rows) * c.columns), up = gate, gated = gate;
  products.gate.out.data = gate.data();
  products.up.out.data = up.data();
  Tensor apart = shape;
  apart.data = gated.data();
  ops.arithmetic().Arithmetic::gated_matmul(input, products, down, apart);
  CHECK(num_different(result, finish(apart)) == 0);
}

// Every instruction set with so many threads, with weights in place and packed.
std::vector<std::unique_ptr<Ops>> all_ops(DType compute, std::initializer_list<int> num_threads) {
  std::vector<std::unique_ptr<Ops>> all;
  for (const CpuIsa isa : available_isas()) {
    for (const int threads : num_threads) {
      all.push_back(make_cpu_ops({isa, threads, compute}));
      if (!can_pack(compute)) continue;
      for (const bool tall : {false, true}) {
        all.push_back(make_cpu_ops({isa, threads, compute, true, {.tall_tiles = tall}}));
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a fused gate has the bits of its operations, on all instruction sets and threads") {
  std::mt19937 random(11);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  constexpr int kColumns[] = {1, 31, 64, 100, 255, 256, 257, 511, 512, 513, 700, 1100};
  constexpr int kRows[] = {1, 2, 15, 16, 17, 33, 64, 65, 100, 129, 200};
  for (const Types& types : kTypes) {
    const auto all = all_ops(types.compute, {1, 2, 3});
    for (int i = 0; i < 18; ++i) {
      const auto numbers = static_cast<Numbers>(i % kNumKindsOfNumbers);
      const int columns = i % 3 ? kColumns[below(std::size(kColumns))] : 1 + below(900);
      const int rows = kRows[below(std::size(kRows))];
      const Case c =
          random_case(random, types, rows, 1 + below(i % 2 ? 60 : 300), columns, numbers);
      for (const auto& ops : all) check_case(*ops, types, c);
    }
  }
}

TEST_CASE("a fused gate has the same bits where threads outnumber the blocks") {
  std::mt19937 random(12);
  for (const Types& types : kTypes) {
    for (const auto& ops : all_ops(types.compute, {9, 24})) {
      for (const int rows : {1, 70, 300}) {
        check_case(*ops, types, random_case(random, types, rows, 300, 530, Numbers::kNormal));
      }
    }
  }
}

}  // namespace pagedinfer
