#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/denormals.h"
#include "core/float16.h"
#include "ops/code_source.h"
#include "tests/support/int4_reference.h"

namespace pagedinfer {

namespace {

// Matrix rows [first, first + count) of a source.
CodeMatrix read_codes(const CodeSource& source, int64_t first, int64_t count) {
  CodeMatrix m = {.rows = count, .cols = source.cols, .group = source.group};
  m.codes.resize(static_cast<size_t>(count * m.cols));
  m.scales.resize(static_cast<size_t>(count * m.groups()));
  source.read(first, count, m.codes.data(), m.scales.data(), nullptr);
  return m;
}

}  // namespace

TEST_CASE("numbers are rounded to the nearest code of their group's scale") {
  std::mt19937 random(1);
  const FlushDenormals guard;
  for (int round = 0; round < 40; ++round) {
    const int64_t rows = 1 + static_cast<int>(random() % 20);
    const int64_t cols = 1 + static_cast<int>(random() % 300);
    const int64_t group = std::vector<int64_t>{32, 64, 128, 0}[random() % 4];
    std::vector<float> w = random_numbers(random, static_cast<size_t>(rows * cols),
                                          round % 3 ? Numbers::kNormal : Numbers::kTies);
    const Tensor host = {w.data(), DType::kF32, rows, cols, cols};
    const CodeSource source = rounded_to_codes(stored_rows(host), group);
    CHECK(source.scales == CodeScales::kBF16);
    const int64_t first = static_cast<int>(random() % static_cast<unsigned>(rows));
    const CodeMatrix m = read_codes(source, first, rows - first);
    for (int64_t i = 0; i < m.rows; ++i) {
      const float* const row = w.data() + (first + i) * cols;
      for (int64_t begin = 0; begin < cols; begin += m.group_size()) {
        const int64_t end = std::min(cols, begin + m.group_size());
        const float largest = *std::max_element(
            row + begin, row + end, [](float a, float b) { return std::abs(a) < std::abs(b); });
        const float scale = m.scale(i, begin);
        REQUIRE(scale == (largest == 0 ? 1 : from_bf16(to_bf16(largest / -8))));
        for (int64_t c = begin; c < end; ++c) {
          REQUIRE(m.codes[static_cast<size_t>(i * cols + c)] < 16);
          // No other code is nearer. The one beyond 7 does not exist.
          const double distance = std::abs(double(row[c]) - double(scale) * m.number(i, c));
          for (int number = -8; number < 8; ++number) {
            const double other = std::abs(double(row[c]) - double(scale) * number);
            REQUIRE(distance <= other + 1e-7 * std::abs(double(largest)));
          }
        }
      }
    }
  }
}

TEST_CASE("a group with a number that is not finite has a scale that is NaN") {
  const FlushDenormals guard;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> w(96, 1.0f);
    w[40] = bad;
    const Tensor host = {w.data(), DType::kF32, 1, 96, 96};
    const CodeMatrix m = read_codes(rounded_to_codes(stored_rows(host), 32), 0, 1);
    CHECK(m.scales[0] == -0.125f);
    CHECK(std::isnan(m.scales[1]));
    CHECK(std::all_of(m.codes.begin() + 32, m.codes.begin() + 64, [](int c) { return c == 8; }));
    CHECK(m.scales[2] == -0.125f);
  }
}

TEST_CASE("part of a source of codes has the rows of the whole") {
  std::mt19937 random(2);
  const CodeMatrix whole = random_codes(random, 30, 100, 32, 1, true);
  const CodeSource part = part_of(whole.source(), 11, 7);
  CHECK(part.rows == 7);
  std::vector<float> of_part(7 * 100), of_whole(30 * 100);
  dequantized(part).read(0, 7, of_part.data());
  dequantized(whole.source()).read(0, 30, of_whole.data());
  CHECK(std::equal(of_part.begin(), of_part.end(), of_whole.begin() + 11 * 100));
}

TEST_CASE("products keep the codes of groups that kernels have") {
  for (const int64_t group : {0, 32, 64, 128, 256, 512, 1024}) CHECK(can_keep_groups(group, 4096));
  for (const int64_t group : {1, 8, 16, 48, 96, 192, 320}) CHECK(!can_keep_groups(group, 4096));
  CHECK(can_keep_groups(48, 48));
  CHECK(!can_keep_groups(48, 49));
}

}  // namespace pagedinfer
