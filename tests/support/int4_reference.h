// Products with codes of 4 bits as plain loops: the definition of docs/numerics.md. And matrices of
// random codes.
// REQUIRES: the calling thread flushes denormals to zero.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "ops/code_source.h"
#include "tests/support/int8_reference.h"
#include "tests/support/product_reference.h"

namespace pagedinfer {

// A matrix of codes in memory. Columns are in the order of the matrix.
struct CodeMatrix {
  int64_t rows = 0, cols = 0, group = 0;
  CodeValues values = CodeValues::kUniform;
  CodeScales scale_type = CodeScales::kF32;
  std::vector<int32_t> order = {};  // or empty
  std::vector<uint8_t> codes = {};  // (rows, cols)
  std::vector<float> scales = {};   // (rows, groups)
  std::vector<uint8_t> zeros = {};  // (rows, groups), or empty

  int64_t group_size() const { return group == 0 ? cols : group; }
  int64_t groups() const { return (cols + group_size() - 1) / group_size(); }
  int64_t column(int64_t place) const {
    return order.empty() ? place : order[static_cast<size_t>(place)];
  }
  // The integer at a place of a row's order, less its zero point.
  int number(int64_t row, int64_t place) const {
    const int code = codes[static_cast<size_t>(row * cols + column(place))];
    if (values == CodeValues::kFp4) {
      // Twice the value of a sign, two bits of exponent and one of fraction.
      const int exponent = code >> 1 & 3, fraction = code & 1;
      const int twice = exponent == 0 ? fraction : (2 + fraction) << (exponent - 1);
      return code & 8 ? -twice : twice;
    }
    const auto at = static_cast<size_t>(row * groups() + place / group_size());
    return code - (zeros.empty() ? 8 : zeros[at]);
  }
  float scale(int64_t row, int64_t place) const {
    return scales[static_cast<size_t>(row * groups() + place / group_size())];
  }
  float value(int64_t row, int64_t place) const {
    return static_cast<float>(number(row, place)) * scale(row, place);
  }

  // A view: this must outlive it.
  CodeSource source() const {
    return {.rows = rows,
            .cols = cols,
            .group = group,
            .values = values,
            .scales = scale_type,
            .has_zeros = !zeros.empty(),
            .column_order = order,
            .read = [this](int64_t first, int64_t count, uint8_t* c, float* s, uint8_t* z) {
              std::copy_n(codes.begin() + first * cols, count * cols, c);
              std::copy_n(scales.begin() + first * groups(), count * groups(), s);
              if (z != nullptr) std::copy_n(zeros.begin() + first * groups(), count * groups(), z);
            }};
  }
};

// Kinds of codes: scales of each type with and without zero points, and MXFP4.
constexpr int kNumKindsOfCodes = 7;

inline CodeMatrix random_codes(std::mt19937& random, int64_t rows, int64_t cols, int64_t group,
                               int kind, bool is_ordered) {
  CodeMatrix m = {.rows = rows, .cols = cols, .group = group};
  if (kind == kNumKindsOfCodes - 1) {
    m.values = CodeValues::kFp4;
    m.scale_type = CodeScales::kE8M0;
  } else {
    constexpr std::array kTypes = {CodeScales::kF32, CodeScales::kBF16, CodeScales::kF16};
    m.scale_type = kTypes[static_cast<size_t>(kind / 2)];
  }
  for (int64_t i = 0; i < rows * cols; ++i) m.codes.push_back(static_cast<uint8_t>(random() % 16));
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < rows * m.groups(); ++i) {
    const float scale = normal(random);
    switch (m.scale_type) {
      case CodeScales::kF32: m.scales.push_back(scale); break;
      case CodeScales::kBF16: m.scales.push_back(as_stored(scale, DType::kBF16)); break;
      case CodeScales::kF16: m.scales.push_back(as_stored(scale, DType::kF16)); break;
      case CodeScales::kE8M0: {
        // Of usual size, or the smallest or largest.
        constexpr std::array kEdges = {0, 1, 2, 254, 255};
        const int byte = random() % 64 ? 110 + static_cast<int>(random() % 30)
                                       : kEdges[random() % kEdges.size()];
        m.scales.push_back(byte == 255 ? std::numeric_limits<float>::quiet_NaN()
                           : byte < 2  ? 0.0f
                                       : std::ldexp(1.0f, byte - 128));
      }
    }
    if (kind % 2 == 1) m.zeros.push_back(static_cast<uint8_t>(random() % 17));
  }
  if (is_ordered) {
    m.order.resize(static_cast<size_t>(cols));
    std::iota(m.order.begin(), m.order.end(), 0);
    std::shuffle(m.order.begin(), m.order.end(), random);
  }
  return m;
}

// y (rows, n) = x (rows, k) * w^T.
inline std::vector<float> int4_product(std::span<const float> x, const CodeMatrix& w) {
  const int64_t rows = std::ssize(x) / w.cols;
  std::vector<float> y(static_cast<size_t>(rows * w.rows));
  for (int64_t m = 0; m < rows; ++m) {
    std::vector<float> ordered;
    for (int64_t i = 0; i < w.cols; ++i) {
      ordered.push_back(x[static_cast<size_t>(m * w.cols + w.column(i))]);
    }
    for (int64_t first = 0; first < w.cols; first += kReferenceGroup) {
      const int64_t last = std::min<int64_t>(w.cols, first + kReferenceGroup);
      const StoredRows input = store_rows(
          std::span(ordered).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)),
          static_cast<int>(last - first), DType::kI8);
      for (int64_t n = 0; n < w.rows; ++n) {
        float part = 0;
        for (int64_t begin = first; begin < last;) {
          const int64_t end = std::min(last, (begin / w.group_size() + 1) * w.group_size());
          int64_t sum = 0;
          for (int64_t i = begin; i < end; ++i) {
            sum += int64_t{w.number(n, i)} *
                   static_cast<int64_t>(input.numbers[static_cast<size_t>(i - first)]);
          }
          part = std::fma(static_cast<float>(sum), w.scale(n, begin), part);
          begin = end;
        }
        float& total = y[static_cast<size_t>(m * w.rows + n)];
        total = std::fma(part, input.scales[0], total);
      }
    }
  }
  return y;
}

}  // namespace pagedinfer
