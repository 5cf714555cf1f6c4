// The source of the GPU's products in int8, run on the CPU, against the definition.
#include <doctest/doctest.h>

#include "kernels/int8_product.h"
#include "kernels/int8_rows.h"
#include "tests/emulated_cuda/device_support.h"
#include "tests/kernels/int8_weights.h"
#include "tests/support/int8_reference.h"
#include "tests/support/product_reference.h"

namespace pagedinfer::kernels {
namespace {

template <class T>
int64_t differences(GuardedMatrix<T>& found, int rows, int cols,
                    const std::vector<float>& expected) {
  int64_t count = found.guards_are_whole() ? 0 : 1;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      count += !same(found(i, j), rounded<T>(expected[static_cast<size_t>(i * cols + j)]));
    }
  }
  return count;
}

struct Size {
  int rows, cols, outputs;
};

// Multiplies numbers of type X by weights, on a GPU with many multiprocessors and one with one.
template <class X, class Out>
void check_product(Random& random, const Size& size, Numbers numbers) {
  const int rows = size.rows, cols = size.cols, outputs = size.outputs;
  INFO(rows, " rows, ", cols, " columns, ", outputs, " outputs");
  std::mt19937 generator(static_cast<unsigned>(random.below(1 << 30)));
  const bool vectors = random.below(2);
  GuardedMatrix<X> x(random, rows, cols, vectors);
  std::vector<float> values = random_numbers(generator, size_t(rows) * cols, numbers);
  for (int i = 0; i < rows * cols; ++i) {
    x.at(i / cols, i % cols) = from_float<X>(values[static_cast<size_t>(i)]);
    values[static_cast<size_t>(i)] = x(i / cols, i % cols);
  }
  const std::vector<float> w = random_numbers(generator, size_t(outputs) * cols, numbers);
  const Int8Weights weights(w, cols);
  const GuardedBytes input(static_cast<size_t>(int8_input_bytes(rows, cols)));
  std::memset(input.data(), 0xff, static_cast<size_t>(int8_input_bytes(rows, cols)));
  launch_quantize({kTypeOf<X>, x.matrix(), rows, cols, input.data()}, nullptr);
  std::vector<float> expected;
  {
    const FlushDenormals guard;
    expected = int8_product(values, w, cols);
  }
  for (const int multiprocessors : {1, 1000}) {
    GuardedMatrix<Out> out(random, rows, outputs, vectors);
    launch_int8_product({.type = kTypeOf<Out>,
                         .input = input.data(),
                         .weights = weights.data(),
                         .out = out.matrix(),
                         .num_rows = rows,
                         .cols = cols,
                         .outputs = outputs,
                         .multiprocessors = multiprocessors},
                        nullptr);
    CHECK(differences(out, rows, outputs, expected) == 0);
  }
}

}  // namespace

TEST_CASE("the GPU's products in int8 are the definition's") {
  Random random{1};
  for (int round = 0; round < 40; ++round) {
    const Size size = {1 + random.below(round % 2 ? 70 : 200),
                       1 + random.below(round % 3 ? 300 : 900),
                       1 + random.below(round % 4 ? 70 : 300)};
    const auto numbers = static_cast<Numbers>(round % kNumKindsOfNumbers);
    switch (round % 4) {
      case 0: check_product<float, float>(random, size, numbers); break;
      case 1: check_product<__nv_bfloat16, __nv_bfloat16>(random, size, numbers); break;
      case 2: check_product<__half, __half>(random, size, numbers); break;
      default: check_product<__nv_bfloat16, float>(random, size, numbers); break;
    }
  }
}

TEST_CASE("the GPU's products in int8 of sizes at the edges of their tiles are the definition's") {
  Random random{2};
  const auto check = [&](const Size& size) {
    check_product<float, float>(random, size, Numbers::kNormal);
  };
  for (const int rows : {1, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129}) check({rows, 320, 33});
  for (const int cols : {1, 31, 64, 65, 128, 129, 256, 257, 2048, 2049, 2369}) check({3, cols, 17});
  for (const int cols : {1, 64, 65, 128, 129, 256, 257, 513}) check({70, cols, 17});
  for (const int outputs : {1, 2, 8, 16, 32, 63, 64, 65, 128, 130}) check({66, 128, outputs});
}

TEST_CASE("the GPU's products in int8 of the largest numbers are exact") {
  Random random{3};
  constexpr int kColumns = 512, kOutputs = 3;
  for (const int rows : {2, 40, 70}) {
    const std::vector<float> w(kOutputs * kColumns, 127.0f);
    for (const float sign : {1.0f, -1.0f}) {
      GuardedMatrix<float> x(random, rows, kColumns, true), out(random, rows, kOutputs, true);
      for (int i = 0; i < rows * kColumns; ++i) x.at(i / kColumns, i % kColumns) = sign * 127;
      const Int8Weights weights(w, kColumns);
      const GuardedBytes input(static_cast<size_t>(int8_input_bytes(rows, kColumns)));
      launch_quantize({Type::kF32, x.matrix(), rows, kColumns, input.data()}, nullptr);
      launch_int8_product({.type = Type::kF32,
                           .input = input.data(),
                           .weights = weights.data(),
                           .out = out.matrix(),
                           .num_rows = rows,
                           .cols = kColumns,
                           .outputs = kOutputs,
                           .multiprocessors = 1},
                          nullptr);
      const std::vector<float> expected(static_cast<size_t>(rows * kOutputs),
                                        sign * 127 * 127 * kColumns);
      CHECK(differences(out, rows, kOutputs, expected) == 0);
    }
  }
}

TEST_CASE("the GPU looks up rows of a table in int8 as its products multiply them") {
  Random random{4};
  const auto check = [&](auto type) {
    using T = decltype(type);
    const int vocab = random.between(1, 50), cols = random.between(1, 1200), rows = random.below(9);
    const Int8Weights table(random.normals(static_cast<size_t>(vocab) * cols), cols);
    std::vector<int32_t> tokens(static_cast<size_t>(rows));
    std::vector<float> expected;
    for (int32_t& token : tokens) {
      token = random.below(vocab);
      for (int column = 0; column < cols; ++column) {
        const auto at = static_cast<size_t>(token * cols + column);
        const int number = static_cast<int>(table.stored().numbers[at]);
        expected.push_back(static_cast<float>(number) *
                           table.stored().scales[static_cast<size_t>(token)] * 1.5f);
      }
    }
    GuardedMatrix<T> out(random, rows, cols, random.below(2));
    launch_embed_int8({kTypeOf<T>, table.data(), tokens.data(), 1.5f, out.matrix(), rows, cols},
                      nullptr);
    CHECK(differences(out, rows, cols, expected) == 0);
  };
  for (int round = 0; round < 15; ++round) check(float{}), check(__nv_bfloat16{}), check(__half{});
}

}  // namespace pagedinfer::kernels
