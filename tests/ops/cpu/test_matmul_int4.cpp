// Products with codes of 4 bits: every kernel that the processor can run, and the kernel for AMX
// with plain loops in place of the processor's tiles, against the definition.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/amx_int4_kernel.h"
#include "ops/cpu/int4_format.h"
#include "ops/cpu/packed_format.h"
#include "tests/support/bits_hash.h"
#include "tests/support/int4_reference.h"
#include "tests/support/ops_support.h"
#include "tests/support/plain_tiles.h"

namespace pagedinfer {

namespace {

constexpr int64_t kGroups[] = {32, 64, 128, 256, 512, 0};

void multiply_in_tiles(const MatmulArgs& args) {
  if (!can_use_tiles(*static_cast<const Int4Header*>(args.weights))) {
    return kPortableKernels.product_int4.multiply(args);
  }
  matmul_int4_tiles<PlainInt8Tiles>(args);
}

struct Int4Product {
  std::string name;
  ProductKernels kernels;
};
std::vector<Int4Product> int4_products() {
  std::vector<Int4Product> all = {
      {"loops as tiles", {kPortableKernels.product_int4.pack, multiply_in_tiles, nullptr}}};
  for (const Kernels* kernels : usable_kernels()) {
    all.push_back({kernels->name, kernels->product_int4});
  }
  if (has_vnni()) all.push_back({"vnni", kVnniInt4Product});
  if (std::ranges::count(available_isas(), CpuIsa::kAmx) > 0) {
    all.push_back({"amx", kAmxInt4Product});
  }
  return all;
}

struct Int4Case {
  int rows;
  CodeMatrix w;
  std::vector<float> x;
};
Int4Case random_int4_case(std::mt19937& random, int rows, int k, int n, int64_t group, int kind,
                          bool is_ordered, Numbers numbers = Numbers::kNormal) {
  return {rows, random_codes(random, n, k, group, kind, is_ordered),
          random_numbers(random, size_t(rows) * k, numbers)};
}

// Weights whose end is followed by a page that cannot be read.
struct PackedCodesMatrix {
  explicit PackedCodesMatrix(const CodeMatrix& w)
      : memory((size_t(int4_bytes(w.source())) + 63) / 64 * 64),
        matrix(begin_int4(w.source(), memory.data())) {
    const CodeSource source = w.source();
    for (int64_t first = 0; first < w.rows; first += kPackedWeightRows) {
      pack_int4_rows(source, first, std::min<int64_t>(kPackedWeightRows, w.rows - first), matrix);
    }
  }
  GuardedBytes memory;
  Tensor matrix;
};

// `split`: packs and multiplies in several calls, as several threads do.
std::vector<float> multiply_int4(const ProductKernels& kernels, const Int4Case& c,
                                 const Tensor& weights, std::mt19937* split = nullptr) {
  const int k = static_cast<int>(c.w.cols), n = static_cast<int>(c.w.rows);
  const int x_stride = k + 3, y_stride = (n + 17) / 16 * 16;
  std::vector<float> x(size_t(c.rows) * x_stride), all;
  std::vector<float> memory(size_t(c.rows) * y_stride + 16, -1.0f);
  float* const y = memory.data() + (-reinterpret_cast<uintptr_t>(memory.data()) / 4) % 16;
  for (int m = 0; m < c.rows; ++m) {
    std::copy_n(&c.x[size_t(m) * k], k, &x[size_t(m) * x_stride]);
  }
  const auto below = [&](int limit) { return static_cast<int>((*split)() % limit); };
  const int padded = (c.rows + 15) / 16 * 16, groups = (k + 255) / 256;
  const GuardedBytes packed(size_t(padded) * groups * 256 * 4);  // what PackedRows has for it
  const int32_t* const order = column_order(weights);
  for (int first = 0; first < c.rows;) {
    const int last = split ? std::min(c.rows, first + 16 * (1 + below(3))) : c.rows;
    for (int column = 0; column < k;) {
      const int end = split && order == nullptr ? std::min(k, column + 256 * (1 + below(3))) : k;
      kernels.pack({&x[size_t(first) * x_stride + column], x_stride, c.rows, k, first, last, column,
                    end, packed.data(), order});
      column = end;
    }
    first = last;
  }
  const GuardedBytes scratch{size_t(kMultiplyScratch)};
  for (int first_row = 0; first_row < c.rows;) {
    const int last_row = split ? std::min(c.rows, first_row + 16 * (1 + below(4))) : c.rows;
    for (int first = 0; first < n;) {
      const int last = split ? std::min(n, first + 64 * (1 + below(3))) : n;
      kernels.multiply(
          {.packed = packed.data(),
           .num_rows = c.rows,
           .k = k,
           .weights = weights.data,
           .weight_stride = weights.stride,
           .y = y,
           .y_stride = y_stride,
           .first_row = first_row,
           .last_row = last_row,
           .first = first,
           .last = last,
           .tuning = {.tall_tiles = c.rows % 3 == 0, .near_bytes = c.rows % 4 < 2 ? 27 << 10 : 0},
           .scratch = scratch.data(),
           .streams_y = n % 2 == 0});
      first = last;
    }
    first_row = last_row;
  }
  for (int m = 0; m < c.rows; ++m) {
    const float* row = y + size_t(m) * y_stride;
    all.insert(all.end(), row, row + n);
    if (row[n] != -1.0f || row[n + 1] != -1.0f) all.push_back(NAN);  // something was written
  }
  return all;
}

void check_int4_case(const std::vector<Int4Product>& products, const Int4Case& c,
                     std::mt19937* split = nullptr) {
  const FlushDenormals guard;
  const std::vector<float> right = int4_product(c.x, c.w);
  const PackedCodesMatrix packed(c.w);
  for (const auto& [name, kernels] : products) {
    INFO(name << ": " << c.rows << " rows, " << c.w.cols << " columns, " << c.w.rows
              << " outputs, groups of " << c.w.group << ", scales "
              << static_cast<int>(c.w.scale_type) << (c.w.zeros.empty() ? "" : ", zero points")
              << (c.w.order.empty() ? "" : ", an order"));
    CHECK(num_different(multiply_int4(kernels, c, packed.matrix, split), right) == 0);
  }
}

// Every instruction set with several numbers of threads.
std::vector<std::unique_ptr<Ops>> int4_ops(DType compute = DType::kBF16) {
  std::vector<std::unique_ptr<Ops>> all;
  for (const CpuIsa isa : available_isas()) {
    for (const int threads : {1, 3}) all.push_back(make_cpu_ops({isa, threads, compute}));
  }
  return all;
}

}  // namespace

TEST_CASE("every kernel of products with codes of 4 bits gives the definition's bits") {
  const std::vector<Int4Product> products = int4_products();
  std::string names;
  for (const Int4Product& product : products) names += " " + product.name;
  MESSAGE("kernels:" << names);
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < 120; ++i) {
    const auto numbers = static_cast<Numbers>(i % kNumKindsOfNumbers);
    const Int4Case c =
        random_int4_case(random, 1 + below(i % 4 ? 14 : 70), 1 + below(i % 3 ? 300 : 900),
                         1 + below(i % 2 ? 70 : 200), kGroups[below(std::size(kGroups))],
                         below(kNumKindsOfCodes), random() % 3 == 0, numbers);
    check_int4_case(products, c, i % 2 ? &random : nullptr);
  }
}

TEST_CASE("products with codes of 4 bits at the edges of groups and panels are the definition's") {
  const std::vector<Int4Product> products = int4_products();
  std::mt19937 random(2);
  int kind = 0;
  for (const int k : {1, 7, 8, 31, 32, 33, 63, 64, 65, 128, 255, 256, 257, 320, 512, 513}) {
    for (const int64_t group : kGroups) {
      const int rows = 1 + static_cast<int>(random() % 27);
      check_int4_case(
          products, random_int4_case(random, rows, k, 65, group, kind++ % kNumKindsOfCodes, false));
    }
  }
  for (const int n : {1, 15, 16, 17, 63, 64, 128}) {
    check_int4_case(products, random_int4_case(random, 3, 300, n, 32, 1, false));
  }
  for (const int rows : {2, 6, 7, 12, 17, 18, 19, 33, 64, 65, 255, 256, 257, 300}) {
    for (const int of : {0, 3, 6}) {
      check_int4_case(products,
                      random_int4_case(random, rows, 257, 64, rows % 2 ? 32 : 128, of, false));
    }
  }
  // Of a wide input the second-level cache holds fewer rows, which AMX then takes at once.
  for (const int rows : {144, 250}) {
    check_int4_case(products, random_int4_case(random, rows, 4500, 34, 0, 1, false));
  }
}

TEST_CASE("products of the largest codes and inputs do not saturate on any instruction set") {
  const std::vector<Int4Product> products = int4_products();
  std::mt19937 random(3);
  for (int round = 0; round < 32; ++round) {
    Int4Case c = random_int4_case(random, 20, 512, 64, round % 2 ? 256 : 32,
                                  round % 3 == 0 ? 6 : round % 2, false);
    // All inputs are 127 or -127 of their groups, in runs of 1, 2, 4 or 512; codes follow them.
    const int run = round / 4 % 4 == 3 ? 512 : 1 << (round / 4 % 4);
    for (size_t i = 0; i < c.x.size(); ++i) c.x[i] = i / run % 2 ? -127.0f : 127.0f;
    const bool is_fp4 = c.w.values == CodeValues::kFp4;
    for (size_t i = 0; i < c.w.codes.size(); ++i) {
      const bool is_high = i / run % 2 == size_t(round % 2);
      c.w.codes[i] = static_cast<uint8_t>(is_fp4 ? (is_high ? 7 : 15) : (is_high ? 15 : 0));
    }
    for (uint8_t& zero : c.w.zeros) zero = round % 5 ? 16 : 0;
    for (float& scale : c.w.scales) scale = 1;
    CAPTURE(round);
    check_int4_case(products, c);
  }
}

TEST_CASE("products with GGUF's blocks are the definition's on every instruction set") {
  const std::vector<Int4Product> products = int4_products();
  std::mt19937 random(9);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < 20 * kNumBlockTypes; ++i) {
    const int type = i % kNumBlockTypes, round = i / kNumBlockTypes;
    CAPTURE(std::string(kBlockTypes[type].name));
    const int k = kBlockTypes[type].sub_group > 0 ? 256 * (1 + below(3)) : 32 * (1 + below(20));
    const int rows = 1 + below(round % 5 == 4 ? 120 : 20), n = 1 + below(round % 2 ? 70 : 200);
    const Int4Case c = {
        rows, random_blocks(random, n, k, type),
        random_numbers(random, size_t(rows) * k, static_cast<Numbers>(round % kNumKindsOfNumbers))};
    check_int4_case(products, c, round % 2 ? &random : nullptr);
  }
}

TEST_CASE("products of the largest numbers of GGUF's blocks are exact") {
  const std::vector<Int4Product> products = int4_products();
  std::mt19937 random(10);
  for (int i = 0; i < 16 * kNumBlockTypes; ++i) {
    const int type = i % kNumBlockTypes, round = i / kNumBlockTypes, run = 1 << round / 2 % 4;
    CAPTURE(std::string(kBlockTypes[type].name));
    Int4Case c = {16, random_blocks(random, 64, 512, type), {}};
    // All inputs are 127 or -127 of their groups, in runs or alike; codes follow them or are alike.
    for (int j = 0; j < c.rows * 512; ++j) {
      c.x.push_back(round % 2 && j / run % 2 ? -127.0f : 127.0f);
    }
    const bool is_bytes = c.w.values == CodeValues::kBytes;
    const uint8_t largest = *std::ranges::max_element(c.w.codes);
    for (size_t j = 0; j < c.w.codes.size(); ++j) {
      const bool is_high = round % 2 ? j / size_t(run) % 2 == 0 : round % 4 == 0;
      c.w.codes[j] = is_high ? (is_bytes ? 127 : largest) : is_bytes ? 128 : 0;
    }
    for (float& scale : c.w.scales) scale = 1;
    for (float& scale : c.w.minimum_scales) scale = round % 3 ? 1 : -1;
    for (int8_t& scale : c.w.sub_scales) scale = round % 5 ? -128 : 127;
    for (uint8_t& minimum : c.w.sub_minima) minimum = 63;
    check_int4_case(products, c);
  }
}

TEST_CASE("super-blocks with extreme codes and sub-scales are exact for any rows and outputs") {
  const std::vector<Int4Product> products = int4_products();
  std::mt19937 random(13);
  constexpr std::array kRows = {15, 33, 64, 65, 129, 161, 289};
  constexpr std::array kOutputs = {1, 31, 33, 65, 97};
  constexpr std::array<int8_t, 8> kSubScales = {-128, -127, -65, -1, 0, 1, 64, 127};
  for (size_t i = 0; i < 4 * (kNumBlockTypes - kNumBlocksOf32); ++i) {
    const int type = kNumBlocksOf32 + int(i) % (kNumBlockTypes - kNumBlocksOf32);
    CAPTURE(std::string(kBlockTypes[type].name));
    const int rows = kRows[i % kRows.size()], k = rows > 100 ? 512 : 1024;
    Int4Case c = {rows, random_blocks(random, kOutputs[i % kOutputs.size()], k, type),
                  random_numbers(random, size_t(rows) * k, Numbers::kNormal)};
    for (int8_t& scale : c.w.sub_scales) scale = kSubScales[random() % kSubScales.size()];
    const uint8_t largest = *std::ranges::max_element(c.w.codes);
    for (uint8_t& code : c.w.codes) {
      if (random() % 4) code = random() % 2 ? largest : 0;
    }
    check_int4_case(products, c, random() % 2 ? &random : nullptr);
  }
}

TEST_CASE("a matrix has the bytes of its codes and of their scales") {
  // Of 256 columns.
  constexpr int kBytes[kNumBlockTypes] = {144, 272, 144, 176, 160, 192,
                                          148, 180, 210, 138, 146, 164};
  std::mt19937 random(12);
  for (int type = 0; type < kNumBlockTypes; ++type) {
    CAPTURE(std::string(kBlockTypes[type].name));
    const PackedCodesMatrix packed(random_blocks(random, 3, 256, type));
    CHECK(packed.matrix.bytes() == 3 * kBytes[type]);
  }
}

TEST_CASE("rows of a table of GGUF's blocks are looked up as their values") {
  std::mt19937 random(11);
  for (int type = 0; type < kNumBlockTypes; ++type) {
    CAPTURE(std::string(kBlockTypes[type].name));
    const CodeMatrix table = random_blocks(random, 150, 512, type);
    Batch batch;
    for (int i = 0; i < 150; ++i) batch.tokens.push_back(i), batch.positions.push_back(i);
    const FlushDenormals guard;
    std::vector<float> values(150 * 512);
    dequantized(table.source()).read(0, 150, values.data());
    for (const auto& ops : int4_ops()) {
      const int64_t before = ops->memory().held_bytes();
      const Tensor packed = ops->memory().upload_codes(table.source());
      CHECK(ops->memory().held_bytes() - before == ops->memory().codes_bytes(table.source()));
      const BatchView staged = ops->steps().stage(batch);
      const Tensor out = ops->steps().scratch(DType::kF32, 150, 512);
      ops->arithmetic().embed(packed, staged.tokens, 1.0f, out);
      for (int64_t i = 0; i < 150; ++i) {
        for (int64_t c = 0; c < 512; ++c) {
          REQUIRE(same(values[size_t(i * 512 + c)], table.value(i, c)));
          REQUIRE(same(out.row<float>(i)[c], table.value(i, c)));
        }
      }
    }
  }
}

TEST_CASE("products with GGUF's blocks have the committed bits") {
  // Changes only if the definition changes, with the commit that does so.
  constexpr uint64_t kCommitted[kNumBlockTypes] = {
      5378934119744489825u,  15691016833821246009u, 11454697385839519513u, 18241298414854301198u,
      17932596215209613038u, 3300427967665411356u,  7930421773462751403u,  14402365687680609730u,
      6605915928182774068u,  9962288012849905575u,  3565764090565893998u,  15328541984409342234u};
  for (int type = 0; type < kNumBlockTypes; ++type) {
    CAPTURE(std::string(kBlockTypes[type].name));
    std::mt19937 random(12);
    Int4Case c = {5, random_blocks(random, 70, 768, type), {}};
    for (int i = 0; i < c.rows * 768; ++i) {
      c.x.push_back(static_cast<float>(i * 7919 % 2003 - 1001) / static_cast<float>(1 + i % 61));
    }
    for (size_t i = 0; i < c.w.scales.size(); ++i) {
      c.w.scales[i] = static_cast<float>(int(i * 4099 % 509) - 254) / 4096.0f;
    }
    for (size_t i = 0; i < c.w.minimum_scales.size(); ++i) {
      c.w.minimum_scales[i] = static_cast<float>(int(i * 2053 % 251)) / 4096.0f;
    }
    for (size_t i = 0; i < c.w.sub_scales.size(); ++i) c.w.sub_scales[i] = int8_t(i * 6151 % 1009);
    for (size_t i = 0; i < c.w.sub_minima.size(); ++i) c.w.sub_minima[i] = i * 7919 % 1009 % 64;
    const PackedCodesMatrix packed(c.w);
    for (const Int4Product& product : int4_products()) {
      CAPTURE(product.name);
      const FlushDenormals guard;
      BitsHash hash;
      for (const float y : multiply_int4(product.kernels, c, packed.matrix)) hash.add(bits_of(y));
      CHECK(hash.value == kCommitted[type]);
    }
  }
}

TEST_CASE("products with codes of 4 bits may mix schemes, on every number of threads") {
  std::mt19937 random(4);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < 24; ++i) {
    const int k = i % 6 == 5 ? 32 + below(2) * 480 : 1 + below(i % 3 ? 200 : 700);
    const int rows = 1 + below(i % 4 ? 20 : 200);
    const std::vector<float> x = random_numbers(random, size_t(rows) * k, Numbers::kNormal);
    std::vector<CodeMatrix> w;
    for (int j = 0; j <= 1 + i % 4; ++j) {
      w.push_back(random_codes(random, 1 + below(300), k, kGroups[below(std::size(kGroups))],
                               below(kNumKindsOfCodes), random() % 3 != 0));
      if (k % 32 == 0) {
        const int type = below(k % 256 ? kNumBlocksOf32 : kNumBlockTypes);
        w.back() = random_blocks(random, 1 + below(300), k, type);
      }
      // Neighbours may share an order, of which each has a copy.
      if (j > 0 && random() % 3 == 0) w[size_t(j)].order = w[size_t(j) - 1].order;
    }
    // And a product in int8 among them.
    std::vector<float> int8 = random_numbers(random, size_t(40) * k, Numbers::kNormal);
    const FlushDenormals guard;
    std::vector<std::vector<float>> right;
    for (const CodeMatrix& matrix : w) right.push_back(int4_product(x, matrix));
    right.insert(right.begin() + 1, int8_product(x, int8, k));
    for (const auto& ops : int4_ops()) {
      CAPTURE(ops->description());
      std::vector<Tensor> weights;
      for (const CodeMatrix& matrix : w) {
        const int64_t before = ops->memory().held_bytes();
        weights.push_back(ops->memory().upload_codes(matrix.source()));
        CodeSource shape = matrix.source();
        shape.read = nullptr;
        CHECK(ops->memory().held_bytes() - before == ops->memory().codes_bytes(shape));
      }
      weights.insert(weights.begin() + 1,
                     ops->memory().upload_matrix(view(int8, 40, k), DType::kI8));
      std::vector<std::vector<float>> out;
      std::vector<Product> products;
      for (const Tensor& weight : weights) {
        out.emplace_back(static_cast<size_t>(rows * weight.rows));
        products.push_back({weight, view(out.back(), rows, weight.rows)});
      }
      std::vector<float> input = x;
      ops->arithmetic().matmul(view(input, rows, k), products);
      for (size_t j = 0; j < out.size(); ++j) CHECK(num_different(out[j], right[j]) == 0);
    }
  }
}

TEST_CASE("a product with codes of 4 bits of several groups has the committed bits") {
  // Changes only if the definition changes, with the commit that does so.
  constexpr uint64_t kCommitted[] = {9527448812449751904u, 12617791240440980530u,
                                     5680520535731672749u};
  for (int kind = 0; kind < 3; ++kind) {
    Int4Case c = {5, {.rows = 70, .cols = 704, .group = kind == 0 ? 128 : 32}, {}};
    if (kind == 2) c.w.values = CodeValues::kFp4, c.w.scale_type = CodeScales::kE8M0;
    for (int i = 0; i < c.rows * 704; ++i) {
      c.x.push_back(static_cast<float>(i * 7919 % 2003 - 1001) / static_cast<float>(1 + i % 61));
    }
    for (int i = 0; i < 70 * 704; ++i) c.w.codes.push_back(uint8_t(i * 6151 % 1009 % 16));
    for (int i = 0; i < 70 * c.w.groups(); ++i) {
      c.w.scales.push_back(kind == 2 ? std::ldexp(1.0f, i * 31 % 17 - 12)
                                     : static_cast<float>(i * 4099 % 509 - 254) / 4096.0f);
      if (kind == 1) c.w.zeros.push_back(uint8_t(i * 13 % 17));
    }
    const PackedCodesMatrix packed(c.w);
    for (const Int4Product& product : int4_products()) {
      CAPTURE(product.name);
      const FlushDenormals guard;
      BitsHash hash;
      for (const float y : multiply_int4(product.kernels, c, packed.matrix)) hash.add(bits_of(y));
      CHECK(hash.value == kCommitted[kind]);
    }
  }
}

TEST_CASE("a row of a product with codes of 4 bits does not depend on the rows beside it") {
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  constexpr int kRows = 300, kColumns = 600, kOutputs = 200;
  const std::vector<float> x = random_numbers(random, kRows * kColumns, Numbers::kNormal);
  const CodeMatrix w = random_codes(random, kOutputs, kColumns, 64, 3, false);
  std::vector<float> whole;
  for (const auto& ops : int4_ops()) {
    CAPTURE(ops->description());
    const Tensor weights = ops->memory().upload_codes(w.source());
    const auto rows_of = [&](int first, int last) {
      std::vector<float> rows(x.begin() + first * kColumns, x.begin() + last * kColumns);
      std::vector<float> y(size_t(last - first) * kOutputs);
      const Product product = {weights, view(y, last - first, kOutputs)};
      ops->arithmetic().matmul(view(rows, last - first, kColumns), {&product, 1});
      return y;
    };
    const std::vector<float> all = rows_of(0, kRows);
    if (whole.empty()) whole = all;
    CHECK(num_different(all, whole) == 0);
    for (int i = 0; i < 20; ++i) {
      const int first = below(kRows), last = first + 1 + below(i % 2 ? kRows - first : 1);
      const std::vector<float> same_rows(whole.begin() + first * kOutputs,
                                         whole.begin() + last * kOutputs);
      CHECK(num_different(rows_of(first, last), same_rows) == 0);
    }
  }
}

TEST_CASE("input that is not finite makes its row of a product with codes NaN, and no other") {
  constexpr int kColumns = 400, kOutputs = 70, kRows = 9;
  std::mt19937 random(7);
  const CodeMatrix w = random_codes(random, kOutputs, kColumns, 128, 0, false);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> x = random_numbers(random, kRows * kColumns, Numbers::kNormal);
    x[3 * kColumns + 399] = bad;
    for (const auto& ops : int4_ops()) {
      const Tensor weights = ops->memory().upload_codes(w.source());
      std::vector<float> y(kRows * kOutputs);
      const Product product = {weights, view(y, kRows, kOutputs)};
      ops->arithmetic().matmul(view(x, kRows, kColumns), {&product, 1});
      for (int m = 0; m < kRows; ++m) {
        for (int n = 0; n < kOutputs; ++n) REQUIRE(std::isnan(y[m * kOutputs + n]) == (m == 3));
      }
    }
  }
}

TEST_CASE("rows of a table of codes are looked up as their values") {
  std::mt19937 random(8);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int round = 0; round < 14; ++round) {
    const int vocab = 1 + below(150), hidden = 1 + below(300);
    const CodeMatrix table = random_codes(random, vocab, hidden, kGroups[below(std::size(kGroups))],
                                          round % kNumKindsOfCodes, round % 2 == 0);
    Batch batch;
    for (int i = 1 + below(40); i > 0; --i) {
      batch.tokens.push_back(below(vocab));
      batch.positions.push_back(i);
    }
    const FlushDenormals guard;
    std::vector<float> values(size_t(vocab) * hidden);
    dequantized(table.source()).read(0, vocab, values.data());
    for (const auto& ops : int4_ops()) {
      const Tensor packed = ops->memory().upload_codes(table.source());
      const BatchView staged = ops->steps().stage(batch);
      const int64_t count = std::ssize(batch.tokens);
      const Tensor out = ops->steps().scratch(DType::kF32, count, hidden);
      ops->arithmetic().embed(packed, staged.tokens, 1.5f, out);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = batch.tokens[size_t(i)];
        for (int place = 0; place < hidden; ++place) {
          const int64_t c = table.column(place);
          REQUIRE(same(values[size_t(row * hidden + c)], table.value(row, place)));
          REQUIRE(same(out.row<float>(i)[c], table.value(row, place) * 1.5f));
        }
      }
    }
  }
}

}  // namespace pagedinfer
