// Products in int8: every kernel that the processor can run, and the kernel for AMX with plain
// loops in place of the processor's tiles, against the definition.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/amx_int8_kernel.h"
#include "ops/cpu/packed_format.h"
#include "tests/support/bits_hash.h"
#include "tests/support/int8_reference.h"
#include "tests/support/ops_support.h"
#include "tests/support/plain_tiles.h"
#include "tests/support/product_reference.h"

namespace pagedinfer {

namespace {

void pack_portably(const PackArgs& args) { pack_int8<int8_t>(args, kPortableKernels.to_int8); }

struct NamedProduct {
  std::string name;
  ProductKernels kernels;
  const PackedFormat& format;
};

std::vector<NamedProduct> usable_products() {
  std::vector<NamedProduct> all = {{"loops as tiles",
                                    {pack_portably, matmul_int8_tiles<PlainInt8Tiles>, nullptr},
                                    kSignedInt8Format}};
  for (const Kernels* kernels : usable_kernels()) {
    all.push_back({kernels->name, kernels->product_int8, kInt8Format});
  }
  if (has_vnni()) all.push_back({"vnni", kVnniProduct, kInt8Format});
  if (std::ranges::count(available_isas(), CpuIsa::kAmx) > 0) {
    all.push_back({"amx", kAmxInt8Product, kSignedInt8Format});
  }
  return all;
}
std::string names_of(const std::vector<NamedProduct>& products) {
  std::string names;
  for (const NamedProduct& product : products) names += " " + product.name;
  return names;
}

struct Case {
  int rows, k, n;
  std::vector<float> x, w;
};
Case random_case(std::mt19937& random, int rows, int k, int n, Numbers numbers) {
  return {rows, k, n, random_numbers(random, size_t(rows) * k, numbers),
          random_numbers(random, size_t(n) * k, numbers)};
}

// Weights whose end is followed by a page that cannot be read.
std::unique_ptr<GuardedBytes> pack_weights(Case& c, const PackedFormat& format) {
  auto packed = std::make_unique<GuardedBytes>(size_t(format.bytes(c.n, c.k)));
  for (int64_t first = 0; first < c.n; first += kPackedWeightRows) {
    const int64_t rows = std::min<int64_t>(kPackedWeightRows, c.n - first);
    format.pack_rows(kPortableKernels, {c.w.data() + first * c.k, DType::kF32, rows, c.k, c.k},
                     first, packed->data());
  }
  return packed;
}

// `split`: packs and multiplies in several calls, as several threads do.
std::vector<float> multiply(const ProductKernels& kernels, const Case& c, const char* weights,
                            std::mt19937* split = nullptr) {
  const int x_stride = c.k + 3, y_stride = (c.n + 17) / 16 * 16;
  std::vector<float> x(size_t(c.rows) * x_stride), all;
  std::vector<float> memory(size_t(c.rows) * y_stride + 16, -1.0f);
  float* const y = memory.data() + (-reinterpret_cast<uintptr_t>(memory.data()) / 4) % 16;
  for (int m = 0; m < c.rows; ++m) {
    std::copy_n(&c.x[size_t(m) * c.k], c.k, &x[size_t(m) * x_stride]);
  }
  const auto below = [&](int n) { return static_cast<int>((*split)() % n); };
  const int padded = (c.rows + 15) / 16 * 16, groups = (c.k + 255) / 256;
  const GuardedBytes packed(size_t(padded) * groups * 256 * 4);  // what PackedRows has for it
  for (int first = 0; first < c.rows;) {
    const int last = split ? std::min(c.rows, first + 16 * (1 + below(3))) : c.rows;
    for (int column = 0; column < c.k;) {
      const int end = split ? std::min(c.k, column + 256 * (1 + below(3))) : c.k;
      kernels.pack({&x[size_t(first) * x_stride + column], x_stride, c.rows, c.k, first, last,
                    column, end, packed.data()});
      column = end;
    }
    first = last;
  }
  for (int first_row = 0; first_row < c.rows;) {
    const int last_row = split ? std::min(c.rows, first_row + 16 * (1 + below(4))) : c.rows;
    for (int first = 0; first < c.n;) {
      const int last = split ? std::min(c.n, first + 64 * (1 + below(3))) : c.n;
      kernels.multiply({.packed = packed.data(),
                        .num_rows = c.rows,
                        .k = c.k,
                        .weights = weights,
                        .weight_stride = int8_panel_bytes(c.k),
                        .y = y,
                        .y_stride = y_stride,
                        .first_row = first_row,
                        .last_row = last_row,
                        .first = first,
                        .last = last,
                        .streams_y = c.n % 2 == 0});
      first = last;
    }
    first_row = last_row;
  }
  for (int m = 0; m < c.rows; ++m) {
    const float* row = y + size_t(m) * y_stride;
    all.insert(all.end(), row, row + c.n);
    if (row[c.n] != -1.0f || row[c.n + 1] != -1.0f) all.push_back(NAN);  // something was written
  }
  return all;
}

void check_case(const std::vector<NamedProduct>& products, Case c, std::mt19937* split = nullptr) {
  const FlushDenormals guard;
  const std::vector<float> right = int8_product(c.x, c.w, c.k);
  for (const auto& [name, kernels, format] : products) {
    const auto weights = pack_weights(c, format);
    INFO(name << ": " << c.rows << " rows, " << c.k << " columns, " << c.n << " outputs");
    CHECK(num_different(multiply(kernels, c, weights->data(), split), right) == 0);
  }
}

// The products of float32 weights through every instruction set and number of threads.
std::vector<std::unique_ptr<Ops>> all_ops() {
  std::vector<std::unique_ptr<Ops>> all;
  for (const CpuIsa isa : available_isas()) {
    for (const int threads : {1, 3}) all.push_back(make_cpu_ops({isa, threads}));
  }
  return all;
}

// Rows of x times each of the matrices, one after another.
std::vector<float> multiply(Ops& ops, std::vector<float>& x, int k,
                            std::span<const Tensor> weights) {
  const int64_t rows = std::ssize(x) / k;
  std::vector<std::vector<float>> out;
  std::vector<Product> products;
  for (const Tensor& weight : weights) {
    out.emplace_back(static_cast<size_t>(rows * weight.rows));
    products.push_back({weight, view(out.back(), rows, weight.rows)});
  }
  ops.arithmetic().matmul(view(x, rows, k), products);
  std::vector<float> all;
  for (const std::vector<float>& y : out) all.insert(all.end(), y.begin(), y.end());
  return all;
}

}  // namespace

TEST_CASE("every kernel of products in int8 gives the definition's bits") {
  const std::vector<NamedProduct> products = usable_products();
  MESSAGE("kernels:" << names_of(products));
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < 60; ++i) {
    const auto numbers = static_cast<Numbers>(i % kNumKindsOfNumbers);
    check_case(products,
               random_case(random, 1 + below(i % 4 ? 14 : 70), 1 + below(i % 3 ? 300 : 900),
                           1 + below(i % 2 ? 70 : 200), numbers),
               i % 2 ? &random : nullptr);
  }
}

TEST_CASE("products in int8 of sizes at the edges of groups and panels are the definition's") {
  const std::vector<NamedProduct> products = usable_products();
  std::mt19937 random(2);
  for (const int k : {1, 3, 4, 63, 64, 65, 255, 256, 257, 320, 512, 513}) {
    for (const int rows : {1, 4, 6, 7, 16, 17, 25}) {
      check_case(products, random_case(random, rows, k, 65, Numbers::kNormal));
    }
  }
  for (const int n : {1, 15, 16, 17, 63, 64, 128}) {
    check_case(products, random_case(random, 3, 300, n, Numbers::kNormal));
  }
  for (const int rows : {33, 64, 65, 129, 255, 256, 257, 300}) {
    check_case(products, random_case(random, rows, 257, 64, Numbers::kNormal));
  }
  // Of an input that the second-level cache does not hold, AMX takes parts of the columns.
  check_case(products, random_case(random, 250, 4500, 34, Numbers::kNormal));
}

TEST_CASE("products in int8 of the largest numbers do not saturate on any instruction set") {
  const std::vector<NamedProduct> products = usable_products();
  constexpr int kColumns = 512, kOutputs = 64, kRows = 8;
  std::mt19937 random(3);
  for (int kind = 0; kind < 6; ++kind) {
    Case c = {kRows, kColumns, kOutputs, {}, {}};
    const auto sign = [&](int i) {
      switch (kind) {
        case 0: return 1;                   // all of x and w are 127: 255 * 127 as stored
        case 1: return -1;                  // x is -127: 255 * -127
        case 2: return i % 2 ? 1 : -1;      // they cancel in pairs
        case 3: return i / 2 % 2 ? 1 : -1;  // pairs of equal sign
        case 4: return i / 4 % 2 ? 1 : -1;  // fours of equal sign
        default: return random() % 2 ? 1 : -1;
      }
    };
    for (int i = 0; i < kRows * kColumns; ++i) c.x.push_back(127.0f * float(sign(i)));
    for (int i = 0; i < kOutputs * kColumns; ++i) {
      // Of the first outputs all numbers have one sign, of the others they follow x.
      const int output = i / kColumns;
      c.w.push_back(output == 0 ? 127.0f : output == 1 ? -127.0f : 127.0f * float(sign(i)));
    }
    CAPTURE(kind);
    check_case(products, c);
  }
}

TEST_CASE("products in int8 are the definition's, on every number of threads") {
  std::mt19937 random(4);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};
  for (int i = 0; i < 24; ++i) {
    const DType type = kTypes[i % 3];
    const int k = 1 + below(i % 3 ? 200 : 700), rows = 1 + below(i % 4 ? 20 : 200);
    std::vector<float> x = random_numbers(random, size_t(rows) * k, Numbers::kNormal);
    std::vector<std::vector<float>> w;
    std::vector<std::vector<char>> stored;
    for (int product = 0; product <= i % 3; ++product) {
      w.push_back(random_numbers(random, size_t(1 + below(300)) * k, Numbers::kNormal));
      for (float& a : w.back()) a = as_stored(a, type);
      stored.emplace_back(w.back().size() * size_of(type));
      store_numbers(w.back().data(), std::ssize(w.back()), type, stored.back().data());
    }
    const FlushDenormals guard;
    std::vector<float> right;
    for (const std::vector<float>& weights : w) {
      const std::vector<float> y = int8_product(x, weights, k);
      right.insert(right.end(), y.begin(), y.end());
    }
    for (const auto& ops : all_ops()) {
      CAPTURE(ops->description());
      const int64_t before = ops->memory().held_bytes();
      int64_t predicted = 0;
      std::vector<Tensor> uploaded;
      for (size_t j = 0; j < w.size(); ++j) {
        const Tensor host = {stored[j].data(), type, std::ssize(w[j]) / k, k, k};
        uploaded.push_back(ops->memory().upload_matrix(host, DType::kI8));
        predicted += ops->memory().matrix_bytes(host, DType::kI8);
        std::ranges::fill(stored[j], '\x7f');  // it is not read again
        CHECK(uploaded.back().dtype == DType::kI8);
      }
      CHECK(ops->memory().held_bytes() - before == predicted);
      CHECK(num_different(multiply(*ops, x, k, uploaded), right) == 0);
      for (size_t j = 0; j < w.size(); ++j) {
        store_numbers(w[j].data(), std::ssize(w[j]), type, stored[j].data());
      }
    }
  }
}

TEST_CASE("a product in int8 of several groups has the committed bits") {
  // Changes only if the definition changes, with the commit that does so.
  constexpr uint64_t kCommitted = 6459981845266424761u;
  Case c = {5, 700, 70, {}, {}};
  for (int i = 0; i < c.rows * c.k; ++i) {
    c.x.push_back(static_cast<float>(i * 7919 % 2003 - 1001) / static_cast<float>(1 + i % 61));
  }
  for (int i = 0; i < c.n * c.k; ++i) {
    c.w.push_back(static_cast<float>(i * 6151 % 1009 - 504) / 4096.0f);
  }
  for (const NamedProduct& product : usable_products()) {
    CAPTURE(product.name);
    const auto weights = pack_weights(c, product.format);
    BitsHash hash;
    for (const float y : multiply(product.kernels, c, weights->data())) hash.add(bits_of(y));
    CHECK(hash.value == kCommitted);
  }
}

TEST_CASE("a row of a product in int8 does not depend on the rows beside it") {
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  constexpr int kRows = 300, kColumns = 600, kOutputs = 200;
  std::vector<float> x = random_numbers(random, kRows * kColumns, Numbers::kNormal);
  std::vector<float> w = random_numbers(random, kOutputs * kColumns, Numbers::kNormal);
  std::vector<float> whole;
  for (const auto& ops : all_ops()) {
    CAPTURE(ops->description());
    const Tensor weights = ops->memory().upload_matrix(view(w, kOutputs, kColumns), DType::kI8);
    const std::vector<float> all = multiply(*ops, x, kColumns, {&weights, 1});
    if (whole.empty()) whole = all;
    CHECK(num_different(all, whole) == 0);
    for (int i = 0; i < 20; ++i) {
      const int first = below(kRows), last = first + 1 + below(i % 2 ? kRows - first : 1);
      std::vector<float> rows(x.begin() + first * kColumns, x.begin() + last * kColumns);
      const std::vector<float> part = multiply(*ops, rows, kColumns, {&weights, 1});
      const std::vector<float> same(whole.begin() + first * kOutputs,
                                    whole.begin() + last * kOutputs);
      CHECK(num_different(part, same) == 0);
    }
  }
}

TEST_CASE("a column a thousand times as large costs the other groups of a row nothing") {
  constexpr int kColumns = 2048, kOutputs = 64;
  std::mt19937 random(6);
  const FlushDenormals guard;
  std::vector<float> usual = random_numbers(random, kColumns, Numbers::kNormal);
  std::vector<float> w = random_numbers(random, kOutputs * kColumns, Numbers::kNormal);
  const std::vector<float> outlier = [&] {
    std::vector<float> x = usual;
    x[700] = 1000 * (x[700] < 0 ? -1 : 1);
    return x;
  }();
  // What a product is off by without the third group, 512 to 767, and with it.
  const auto distance = [&](std::vector<float> x, const std::vector<float>& weights) {
    const auto ops = make_cpu_ops({.isa = available_isas().back()});
    std::vector<float> copy = weights;
    const Tensor packed = ops->memory().upload_matrix(view(copy, kOutputs, kColumns), DType::kI8);
    const std::vector<float> y = multiply(*ops, x, kColumns, {&packed, 1});
    double squares = 0;
    for (int n = 0; n < kOutputs; ++n) {
      double exact = 0;
      for (int i = 0; i < kColumns; ++i) exact += double(x[i]) * weights[n * kColumns + i];
      squares += (y[n] - exact) * (y[n] - exact);
    }
    return std::sqrt(squares / kOutputs);
  };
  std::vector<float> elsewhere = w;  // without the weights of the outlier's group
  for (int i = 0; i < kOutputs * kColumns; ++i) {
    if (i % kColumns / kReferenceGroup == 700 / kReferenceGroup) elsewhere[i] = 0;
  }
  CHECK(distance(outlier, elsewhere) == doctest::Approx(distance(usual, elsewhere)).epsilon(1e-6));
  // One scale for the whole row would round the others of all groups by as much as those beside it.
  std::vector<float> one_scale = outlier;
  const float step = 1000.0f / 127;
  for (float& a : one_scale) a = std::nearbyint(a / step) * step;
  double lost = 0;
  for (int n = 0; n < kOutputs; ++n) {
    double y = 0, exact = 0;
    for (int i = 0; i < kColumns; ++i) {
      y += double(one_scale[i]) * w[n * kColumns + i];
      exact += double(outlier[i]) * w[n * kColumns + i];
    }
    lost += (y - exact) * (y - exact);
  }
  CHECK(distance(outlier, w) < 0.6 * std::sqrt(lost / kOutputs));
}

TEST_CASE("input that is not finite makes its row of a product in int8 NaN, and no other") {
  constexpr int kColumns = 400, kOutputs = 70, kRows = 9;
  std::mt19937 random(7);
  std::vector<float> w = random_numbers(random, kOutputs * kColumns, Numbers::kNormal);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> x = random_numbers(random, kRows * kColumns, Numbers::kNormal);
    x[3 * kColumns + 399] = bad;
    for (const auto& ops : all_ops()) {
      const Tensor weights = ops->memory().upload_matrix(view(w, kOutputs, kColumns), DType::kI8);
      const std::vector<float> y = multiply(*ops, x, kColumns, {&weights, 1});
      for (int m = 0; m < kRows; ++m) {
        for (int n = 0; n < kOutputs; ++n) REQUIRE(std::isnan(y[m * kOutputs + n]) == (m == 3));
      }
    }
  }
}

TEST_CASE("rows of a table in int8 are looked up as the product multiplies them") {
  Random random{8};
  for (int round = 0; round < 12; ++round) {
    const int vocab = random.between(1, 150), hidden = random.between(1, 300);
    std::vector<float> table = random.normals(static_cast<size_t>(vocab) * hidden);
    Batch batch;
    for (int i = random.between(1, 40); i > 0; --i) {
      batch.tokens.push_back(random.below(vocab));
      batch.positions.push_back(i);
    }
    const FlushDenormals guard;
    const StoredRows rows = store_rows(table, hidden, DType::kI8);
    for (const auto& ops : all_ops()) {
      const Tensor packed = ops->memory().upload_matrix(view(table, vocab, hidden), DType::kI8);
      const BatchView staged = ops->steps().stage(batch);
      const int64_t count = std::ssize(batch.tokens);
      const Tensor out = ops->steps().scratch(DType::kF32, count, hidden);
      ops->arithmetic().embed(packed, staged.tokens, 1.5f, out);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = batch.tokens[static_cast<size_t>(i)];
        for (int c = 0; c < hidden; ++c) {
          const int number = static_cast<int>(rows.numbers[static_cast<size_t>(row * hidden + c)]);
          const float right =
              static_cast<float>(number) * rows.scales[static_cast<size_t>(row)] * 1.5f;
          REQUIRE(same(out.row<float>(i)[c], right));
        }
      }
    }
  }
}

}  // namespace pagedinfer
