// The parts of the CUDA backend that need neither a GPU nor the CUDA toolkit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "ops/cuda/convert.h"
#include "ops/cuda/device_arena.h"
#include "ops/cuda/machine_code.h"
#include "ops/cuda/product_key.h"
#include "tests/support/ops_support.h"

namespace pagedinfer {
namespace {

template <class To, class From>
To converted(From from, DType from_type, DType to_type) {
  To to = {};
  convert(&from, from_type, &to, to_type, 1);
  return to;
}

// The 16-bit number nearest to x (of two, the even one), found by trying all of them.
uint16_t nearest(const std::map<double, uint16_t>& values, double x) {
  const auto above = values.lower_bound(x);
  if (above == values.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == values.end()) return below->second;
  const double down = x - below->first, up = above->first - x;
  if (down != up) return down < up ? below->second : above->second;
  return below->second % 2 == 0 ? below->second : above->second;
}

}  // namespace

TEST_CASE("a build has machine code for the GPUs that its architectures name") {
  constexpr std::string_view kUsual = "80-real, 90a-real, 90-virtual";
  CHECK(has_machine_code(kUsual, 8, 0));
  CHECK(has_machine_code(kUsual, 8, 9));
  CHECK(has_machine_code(kUsual, 9, 0));
  CHECK(!has_machine_code(kUsual, 10, 0));
  CHECK(!has_machine_code(kUsual, 12, 0));
  CHECK(!has_machine_code("86", 8, 0));
  CHECK(has_machine_code("86, 120", 12, 1));
  CHECK(!has_machine_code("100a", 10, 3));
  CHECK(has_machine_code("100f", 10, 3));
  CHECK(has_machine_code("native", 7, 5));
}

TEST_CASE("numbers of 16 bits are widened exactly and numbers are rounded to the nearest") {
  Random random{71};
  for (const DType type : {DType::kBF16, DType::kF16}) {
    const int fraction_bits = type == DType::kBF16 ? 7 : 10, most = type == DType::kBF16 ? 255 : 31;
    const int bias = type == DType::kBF16 ? 127 : 15;
    std::map<double, uint16_t> values;
    for (int bits = 0; bits < 1 << 15; ++bits) {
      const int exponent = bits >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
      const float wide = converted<float>(static_cast<uint16_t>(bits), type, DType::kF32);
      if (exponent == most) {
        CHECK(std::isnan(wide) == (fraction != 0));
        CHECK(std::isinf(wide) == (fraction == 0));
        continue;
      }
      const double value = std::ldexp(exponent == 0 ? fraction : fraction + (1 << fraction_bits),
                                      std::max(exponent, 1) - bias - fraction_bits);
      if (static_cast<double>(wide) != value) FAIL_CHECK(bits);
      if (converted<uint16_t>(wide, DType::kF32, type) != bits) FAIL_CHECK(bits);
      if (converted<uint16_t>(-wide, DType::kF32, type) != (bits | 0x8000)) FAIL_CHECK(bits);
      values[value] = static_cast<uint16_t>(bits);
    }
    const double largest = values.rbegin()->first;
    for (int i = 0; i < 20000; ++i) {
      const float x =
          std::abs(random.normal()) * std::exp2(static_cast<float>(random.between(-30, 17)));
      if (static_cast<double>(x) > largest) continue;
      if (converted<uint16_t>(x, DType::kF32, type) != nearest(values, static_cast<double>(x))) {
        FAIL_CHECK(x);
      }
    }
    CHECK(std::isnan(converted<float>(
        converted<uint16_t>(std::numeric_limits<float>::quiet_NaN(), DType::kF32, type), type,
        DType::kF32)));
  }
  CHECK(converted<uint16_t>(65519.0f, DType::kF32, DType::kF16) == 0x7bff);
  CHECK(converted<uint16_t>(65520.0f, DType::kF32, DType::kF16) == 0x7c00);
  CHECK(converted<uint16_t>(uint16_t{0x3f80}, DType::kBF16, DType::kF16) == 0x3c00);
  CHECK(converted<uint16_t>(uint16_t{0x3c00}, DType::kF16, DType::kBF16) == 0x3f80);
}

TEST_CASE("pieces of the device's memory never overlap, and a full arena stays as it was") {
  Random random{72};
  for (int run = 0; run < 200; ++run) {
    const int64_t size = random.between(0, 20000);
    DeviceArena arena(size);
    std::map<int64_t, int64_t> permanent, step;  // begin to end
    const auto add = [&](std::map<int64_t, int64_t>& to, int64_t begin, int64_t bytes) {
      for (const auto* pieces : {&permanent, &step}) {
        for (const auto& [first, end] : *pieces) CHECK((begin >= end || begin + bytes <= first));
      }
      CHECK(begin >= 0);
      CHECK(begin + bytes <= size);
      if (bytes > 0) to[begin] = begin + bytes;
    };
    for (int i = 0; i < 60; ++i) {
      const int64_t bytes = random.between(0, 900), before = arena.permanent();
      const int64_t alignment = int64_t{16} << random.below(5);
      switch (random.below(5)) {
        case 0: arena.end_step(), step.clear(); break;
        case 1:
        case 2:
          if (const auto at = arena.take_permanent(bytes, alignment)) {
            CHECK(*at % alignment == 0);
            add(permanent, *at, bytes);
          } else {
            CHECK(arena.permanent() == before);
          }
          break;
        default:
          if (const auto at = arena.take_step(bytes)) {
            CHECK(*at % DeviceArena::kStepAlignment == 0);
            add(step, *at, bytes);
          }
      }
    }
    arena.end_step();
    const int64_t left = arena.size() - arena.permanent();
    CHECK(arena.take_step(left / 256 * 256).has_value());
    CHECK(!arena.take_step(256).has_value());
  }
}

TEST_CASE("adjacent weights in the arena are one matrix") {
  DeviceArena arena(1 << 20);
  const int64_t q = *arena.take_permanent(96 * 24 * 2), k = *arena.take_permanent(16 * 24 * 2);
  CHECK(k == q + 96 * 24 * 2);
}

namespace {

struct FakeProducts {
  std::vector<char> memory = std::vector<char>(1 << 16);
  // `gap` bytes after each weight, `space` columns after each output.
  std::vector<Product> make(std::vector<int64_t> outputs, int64_t k, int64_t rows, int64_t gap,
                            int64_t space) {
    const int64_t width =
        std::accumulate(outputs.begin(), outputs.end(), int64_t{0}) + space * std::ssize(outputs);
    std::vector<Product> products;
    char *weight = memory.data(), *out = memory.data() + (1 << 15);
    for (const int64_t n : outputs) {
      products.push_back({{weight, DType::kBF16, n, k, k}, {out, DType::kBF16, rows, n, width}});
      weight += n * k * 2 + gap;
      out += (n + space) * 2;
    }
    return products;
  }
};

}  // namespace

TEST_CASE("products are one only if their weights and their outputs are adjacent") {
  FakeProducts fake;
  const auto fused = fake.make({32, 16, 16}, 24, 5, 0, 0);
  REQUIRE(num_fusible(fused) == 3);
  const Product one = fuse(fused, 3);
  CHECK(one.weight.rows == 64);
  CHECK(one.out.cols == 64);
  CHECK(one.out.stride == 64);
  CHECK(one.weight.data == fused[0].weight.data);
  CHECK(num_fusible(fake.make({32, 16, 16}, 24, 5, 16, 0)) == 1);
  CHECK(num_fusible(fake.make({32, 16, 16}, 24, 5, 0, 8)) == 1);
  CHECK(num_fusible(fake.make({32}, 24, 5, 0, 0)) == 1);
  auto mixed = fused;
  mixed[2].out.dtype = DType::kF32;
  CHECK(num_fusible(mixed) == 2);
  mixed = fused;
  std::swap(mixed[1], mixed[2]);
  CHECK(num_fusible(mixed) == 1);
}

TEST_CASE("an algorithm is checked for the minimum and maximum number of rows of its bucket") {
  int64_t last = 0;
  for (const int64_t bucket : buckets_up_to(9000)) {
    const std::vector<int64_t> checked = rows_to_check(bucket);
    CHECK(checked == std::vector<int64_t>{last + 1, bucket});
    for (int64_t rows = last + 1; rows <= bucket; ++rows) REQUIRE(rows_bucket(rows) == bucket);
    last = bucket;
  }
  CHECK(last >= 9000);
}

TEST_CASE("an algorithm for all numbers of rows is checked up to the maximum of the run") {
  CHECK(all_rows_to_check(1) == std::vector<int64_t>{1});
  CHECK(all_rows_to_check(16) == std::vector<int64_t>{1, 15, 16});
  CHECK(all_rows_to_check(8192) == std::vector<int64_t>{1, 15, 128, 1000, 8192});
  CHECK(all_rows_to_check(20000).back() == 20000);
}

TEST_CASE("products that differ in their number of rows share a key") {
  FakeProducts fake;
  std::vector<char> x(1 << 16);
  std::set<ProductKey> keys;
  for (const int64_t rows : {9, 16, 17, 300}) {
    const Tensor input = {x.data(), DType::kBF16, rows, 24, 24};
    keys.insert(key_of(input, fuse(fake.make({32, 16, 16}, 24, rows, 0, 0), 3)));
  }
  CHECK(keys.size() == 1);
}

TEST_CASE("the alignment that a product assumes is that of the pointer and the rows") {
  alignas(512) static char memory[4096];
  CHECK(alignment_of({memory, DType::kBF16, 3, 128, 128}) == 256);
  CHECK(alignment_of({memory + 16, DType::kBF16, 3, 128, 128}) == 16);
  CHECK(alignment_of({memory, DType::kBF16, 3, 24, 24}) == 16);
  CHECK(alignment_of({memory, DType::kF32, 3, 61, 61}) == 4);
  CHECK(alignment_of({memory + 2, DType::kBF16, 3, 8, 8}) == 2);
}

}  // namespace pagedinfer
