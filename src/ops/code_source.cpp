#include "ops/code_source.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "core/check.h"
#include "core/float16.h"

namespace pagedinfer {
namespace {

constexpr int kMiddle = 8;  // the zero point of rounded codes

bool is_uniform(CodeValues values) {
  return values == CodeValues::kUniform || values == CodeValues::kUniform5 ||
         values == CodeValues::kUniform6;
}

// Codes, scales and bytes of rows, as CodeSource::read() writes them.
struct ReadRows {
  ReadRows(const CodeSource& source, int64_t first, int64_t count)
      : codes(static_cast<size_t>(count * source.cols)),
        scales(static_cast<size_t>(count * source.scales_of_row())),
        bytes(static_cast<size_t>(count * source.bytes_of_row())) {
    source.read(first, count, codes.data(), scales.data(), bytes.empty() ? nullptr : bytes.data());
  }

  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<uint8_t> bytes;
};

// The group of each column.
std::vector<int32_t> groups_of_columns(const CodeSource& source) {
  std::vector<int32_t> groups(static_cast<size_t>(source.cols));
  const int64_t size = source.group == 0 ? source.cols : source.group;
  for (int64_t i = 0; i < source.cols; ++i) {
    const int64_t column =
        source.column_order.empty() ? i : source.column_order[static_cast<size_t>(i)];
    groups[static_cast<size_t>(column)] = static_cast<int32_t>(i / size);
  }
  return groups;
}

// Rounds the numbers of a group and returns their scale. The loops call nothing, so that the
// compiler vectorizes them. REQUIRES: n > 0.
float round_group(const float* x, int64_t n, uint8_t* codes) {
  const auto magnitude = [x](int64_t i) { return std::bit_cast<int32_t>(x[i]) & 0x7fffffff; };
  int32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, magnitude(i));
  if (largest >= std::bit_cast<int32_t>(std::numeric_limits<float>::infinity())) {
    std::fill_n(codes, n, uint8_t{kMiddle});
    return std::numeric_limits<float>::quiet_NaN();
  }
  int64_t first = 0;  // of the largest magnitude
  while (magnitude(first) != largest) ++first;
  float scale = from_bf16(to_bf16(x[first] / -8));
  if (scale == 0) scale = 1;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  for (int64_t i = 0; i < n; ++i) {
    const float number = std::max(-8.0f, std::min(7.0f, x[i] / scale)) + kRound - kRound;
    codes[i] = static_cast<uint8_t>(static_cast<int>(number) + kMiddle);
  }
  return scale;
}

}  // namespace

bool can_keep_groups(int64_t group, int64_t cols) {
  return group == 0 || group == 32 || group == 64 || group == 128 || group % 256 == 0 ||
         group >= cols;
}

int value_of_code(CodeValues values, int code) {
  if (is_uniform(values)) return code;
  if (values == CodeValues::kBytes) return static_cast<int8_t>(code);
  if (values == CodeValues::kTable) {
    constexpr int kTable[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};
    return kTable[code];
  }
  constexpr int kTwice[] = {0, 1, 2, 3, 4, 6, 8, 12};
  return code < 8 ? kTwice[code] : -kTwice[code - 8];
}

int zero_point(const CodeSource& source) { return is_uniform(source.values) ? source.zero : 0; }

float value_of_number(const CodeSource& source, int number, const float* scales,
                      const uint8_t* bytes, int64_t column) {
  if (source.sub_group == 0) {
    const float value = static_cast<float>(number) * scales[0];
    return source.has_minima ? value - scales[1] : value;
  }
  const int64_t sub = column / source.sub_group;
  const float scale = scales[0] * static_cast<float>(static_cast<int8_t>(bytes[sub]));
  const float value = scale * static_cast<float>(number);
  if (!source.has_minima) return value;
  return value - scales[1] * static_cast<float>(bytes[source.num_subs() + sub]);
}

RowSource dequantized(const CodeSource& source) {
  return {source.rows, source.cols,
          [source, groups = groups_of_columns(source)](int64_t first, int64_t count, float* out) {
            const ReadRows rows(source, first, count);
            const int zero = zero_point(source);
            for (int64_t i = 0; i < count; ++i) {
              const int64_t of_row = i * source.num_groups();
              for (int64_t c = 0; c < source.cols; ++c) {
                const int64_t at = of_row + groups[static_cast<size_t>(c)];
                const uint8_t* const bytes = rows.bytes.data() + at * source.bytes_of_group();
                const int code = rows.codes[static_cast<size_t>(i * source.cols + c)];
                const int number =
                    value_of_code(source.values, code) - (source.has_zeros ? *bytes : zero);
                *out++ = value_of_number(source, number,
                                         rows.scales.data() + at * source.scales_of_group(), bytes,
                                         source.sub_group == 0 ? 0 : c % source.group);
              }
            }
          }};
}

CodeSource part_of(const CodeSource& source, int64_t first, int64_t rows) {
  CodeSource part = source;
  part.rows = rows;
  part.read = [first, read = source.read](int64_t begin, int64_t count, uint8_t* codes,
                                          float* scales, uint8_t* bytes) {
    read(first + begin, count, codes, scales, bytes);
  };
  return part;
}

CodeSource rounded_to_codes(RowSource source, int64_t group) {
  CodeSource rounded = {
      .rows = source.rows, .cols = source.cols, .group = group, .scales = CodeScales::kBF16};
  const int64_t cols = source.cols, size = group == 0 ? cols : group;
  rounded.read = [cols, size, read = std::move(source.read)](
                     int64_t first, int64_t count, uint8_t* codes, float* scales, uint8_t*) {
    std::vector<float> numbers(static_cast<size_t>(count * cols));
    read(first, count, numbers.data());
    const float* x = numbers.data();
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t c = 0; c < cols; c += size) {
        const int64_t n = std::min(size, cols - c);
        *scales++ = round_group(x, n, codes);
        x += n, codes += n;
      }
    }
  };
  return rounded;
}

}  // namespace pagedinfer
