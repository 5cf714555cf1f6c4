// Products with codes as plain loops: the definition of docs/numerics.md. And matrices of
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
  std::vector<int32_t> order = {};         // or empty
  std::vector<uint8_t> codes = {};         // (rows, cols)
  std::vector<float> scales = {};          // (rows, groups)
  std::vector<uint8_t> zeros = {};         // (rows, groups), or empty
  int zero = 8;                            // of uniform codes without zeros
  int64_t sub_group = 0;                   // of super-blocks
  std::vector<int8_t> sub_scales = {};     // (rows, columns / sub_group)
  std::vector<float> minimum_scales = {};  // (rows, groups), or empty; minima without sub_group
  std::vector<uint8_t> sub_minima = {};    // (rows, columns / sub_group)

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
    if (values == CodeValues::kBytes) return code < 128 ? code : code - 256;
    if (values == CodeValues::kTable) {
      const int upwards[] = {1, 13, 25, 38, 53, 69, 89, 113};
      const int downwards[] = {10, 22, 35, 49, 65, 83, 104, 127};
      return code < 8 ? -downwards[7 - code] : upwards[code - 8];
    }
    const auto at = static_cast<size_t>(row * groups() + place / group_size());
    return code - (zeros.empty() ? zero : zeros[at]);
  }
  size_t sub_at(int64_t row, int64_t place) const {
    return static_cast<size_t>((row * cols + place) / sub_group);
  }
  float scale(int64_t row, int64_t place) const {
    return scales[static_cast<size_t>(row * groups() + place / group_size())];
  }
  bool has_minima() const { return !minimum_scales.empty(); }
  float minimum_scale(int64_t row, int64_t place) const {
    return minimum_scales[static_cast<size_t>(row * groups() + place / group_size())];
  }
  float value(int64_t row, int64_t place) const {
    const auto n = static_cast<float>(number(row, place));
    if (sub_group == 0) {
      const float value = n * scale(row, place);
      return has_minima() ? value - minimum_scale(row, place) : value;
    }
    const size_t sub = sub_at(row, place);
    const float value = scale(row, place) * static_cast<float>(sub_scales[sub]) * n;
    if (!has_minima()) return value;
    return value - minimum_scale(row, place) * static_cast<float>(sub_minima[sub]);
  }

  void read_blocks(int64_t first, int64_t count, float* s, uint8_t* bytes) const {
    const int64_t subs = sub_group == 0 ? 0 : 256 / sub_group;
    for (int64_t i = first * groups(); i < (first + count) * groups(); ++i) {
      const auto at = static_cast<size_t>(i);
      *s++ = scales[at];
      if (has_minima()) *s++ = minimum_scales[at];
      if (subs == 0) continue;
      bytes = std::copy_n(sub_scales.begin() + i * subs, subs, bytes);
      if (has_minima()) bytes = std::copy_n(sub_minima.begin() + i * subs, subs, bytes);
    }
  }

  // A view: this must outlive it.
  CodeSource source() const {
    return {.rows = rows,
            .cols = cols,
            .group = group,
            .values = values,
            .scales = scale_type,
            .has_zeros = !zeros.empty(),
            .zero = zero,
            .sub_group = sub_group,
            .has_minima = has_minima(),
            .column_order = order,
            .read = [this](int64_t first, int64_t count, uint8_t* c, float* s, uint8_t* z) {
              std::copy_n(codes.begin() + first * cols, count * cols, c);
              if (sub_group > 0 || has_minima()) return read_blocks(first, count, s, z);
              std::copy_n(scales.begin() + first * groups(), count * groups(), s);
              if (z != nullptr) std::copy_n(zeros.begin() + first * groups(), count * groups(), z);
            }};
  }
};

// A random scale of float16: of usual size, or now and then one that is not usual.
inline float random_f16_scale(std::mt19937& random, float scale) {
  constexpr std::array kHostile = {0.0f, 0x1p-24f, -0x1p-15f, 65504.0f, HUGE_VALF, NAN};
  return random() % 200 ? as_stored(scale, DType::kF16) : kHostile[random() % kHostile.size()];
}

// Block types of GGUF: the number of a row is the argument of random_blocks().
struct BlockType {
  const char* name;
  CodeValues values;
  int zero, group, sub_group;
  bool has_minima;
};
constexpr BlockType kBlockTypes[] = {
    {"Q4_0", CodeValues::kUniform, 8, 32, 0, false},
    {"Q8_0", CodeValues::kBytes, 8, 32, 0, false},
    {"IQ4_NL", CodeValues::kTable, 8, 32, 0, false},
    {"Q5_0", CodeValues::kUniform5, 16, 32, 0, false},
    {"Q4_1", CodeValues::kUniform, 0, 32, 0, true},
    {"Q5_1", CodeValues::kUniform5, 0, 32, 0, true},
    {"Q4_K", CodeValues::kUniform, 0, 256, 32, true},
    {"Q5_K", CodeValues::kUniform5, 0, 256, 32, true},
    {"Q6_K", CodeValues::kUniform6, 32, 256, 16, false},
    {"IQ4_XS", CodeValues::kTable, 8, 256, 32, false},
    {"Q3_K", CodeValues::kUniform, 4, 256, 16, false},
    {"Q2_K", CodeValues::kUniform, 0, 256, 16, true},
};
constexpr int kNumBlockTypes = std::size(kBlockTypes);
constexpr int kNumBlocksOf32 = 6;  // they are the first ones

// REQUIRES: whole super-blocks.
inline CodeMatrix random_blocks(std::mt19937& random, int64_t rows, int64_t cols, int type) {
  const BlockType& block = kBlockTypes[type];
  CodeMatrix m = {.rows = rows,
                  .cols = cols,
                  .group = block.group,
                  .values = block.values,
                  .scale_type = CodeScales::kF16,
                  .zero = block.zero,
                  .sub_group = block.sub_group};
  const unsigned codes = block.values == CodeValues::kBytes      ? 256
                         : block.values == CodeValues::kUniform6 ? 64
                         : block.values == CodeValues::kUniform5 ? 32
                                                                 : 16;
  for (int64_t i = 0; i < rows * cols; ++i) {
    m.codes.push_back(static_cast<uint8_t>(random() % codes));
  }
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < rows * m.groups(); ++i) {
    m.scales.push_back(random_f16_scale(random, normal(random)));
    if (block.has_minima) m.minimum_scales.push_back(random_f16_scale(random, normal(random)));
  }
  if (block.sub_group == 0) return m;
  for (int64_t i = 0; i < rows * cols / block.sub_group; ++i) {
    m.sub_scales.push_back(static_cast<int8_t>(random()));
    if (block.has_minima) m.sub_minima.push_back(static_cast<uint8_t>(random() % 64));
  }
  return m;
}

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

// The part of an output for one super-block.
inline float super_block_part(const CodeMatrix& w, int64_t n, int64_t first,
                              const StoredRows& input) {
  int64_t sum = 0, minima = 0;
  for (int64_t i = 0; i < 256; ++i) {
    const auto x = static_cast<int64_t>(input.numbers[static_cast<size_t>(i)]);
    const size_t sub = w.sub_at(n, first + i);
    sum += int64_t{w.sub_scales[sub]} * w.number(n, first + i) * x;
    if (w.has_minima()) minima -= int64_t{w.sub_minima[sub]} * x;
  }
  const float part = std::fma(static_cast<float>(sum), w.scale(n, first), 0.0f);
  if (!w.has_minima()) return part;
  return std::fma(static_cast<float>(minima), w.minimum_scale(n, first), part);
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
        if (w.sub_group > 0) part = super_block_part(w, n, first, input);
        for (int64_t begin = first; begin < last && w.sub_group == 0;) {
          const int64_t end = std::min(last, (begin / w.group_size() + 1) * w.group_size());
          int64_t sum = 0, minus_inputs = 0;
          for (int64_t i = begin; i < end; ++i) {
            const auto number = static_cast<int64_t>(input.numbers[static_cast<size_t>(i - first)]);
            sum += int64_t{w.number(n, i)} * number;
            minus_inputs -= number;
          }
          part = std::fma(static_cast<float>(sum), w.scale(n, begin), part);
          if (w.has_minima()) {
            part = std::fma(static_cast<float>(minus_inputs), w.minimum_scale(n, begin), part);
          }
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
