#include "ops/cpu/int4_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/check.h"
#include "core/float16.h"
#include "ops/cpu/int4_layout.h"

namespace pagedinfer {
namespace {

static_assert(kCodePanelRows == kInt8Panel);

Int4Header header_of(const CodeSource& source) {
  CHECK(can_keep_groups(source.group, source.cols));
  CHECK(!source.has_zeros || source.values == CodeValues::kUniform);
  if (source.sub_group > 0) {
    CHECK((source.sub_group == 16 || source.sub_group == 32) && source.group == kInt8Group);
    CHECK(source.cols % kInt8Group == 0 && !source.has_zeros);
  }
  CHECK(!source.has_minima || source.sub_group > 0 || (source.group == 32 && !source.has_zeros));
  const int64_t group = source.group;
  Int4Header header = {
      .group = group == 32 || group == 64 || group == 128 ? int(group) : kInt8Group,
      .values = source.values,
      .scales = source.scales,
      .has_zeros = source.has_zeros,
      .has_minima = source.has_minima,
      .zero = zero_point(source),
      .sub_group = static_cast<int32_t>(source.sub_group),
      .order_at = 0,
      .unused = {}};
  if (!source.column_order.empty()) {
    header.order_at =
        int64_t{sizeof header} + int8_panels(source.rows) * int4_panel_bytes(header, source.cols);
  }
  return header;
}

const Int4Header& header_in(const Tensor& matrix) {
  CHECK(matrix.dtype == DType::kI4 && matrix.layout == Layout::kPanels);
  return *static_cast<const Int4Header*>(matrix.data);
}

// The place of output i in the panel that has it.
uint8_t* panel_of(const Tensor& matrix, int64_t i) {
  return static_cast<uint8_t*>(matrix.data) + sizeof(Int4Header) + i / kInt8Panel * matrix.stride;
}

// Columns [first, first + count) of a group; the scales follow their codes, then the bytes.
struct Group {
  int64_t first, count;
  uint8_t *codes, *scales, *bytes;
};
int scales_of_group(const Int4Header& header) { return header.has_minima ? 2 : 1; }
int bytes_of_group(const Int4Header& header) {
  if (header.sub_group == 0) return header.has_zeros ? 1 : 0;
  return header.group / header.sub_group * scales_of_group(header);
}
// Calls f(group) for the groups of a panel.
template <class F>
void for_groups(const Int4Header& header, int64_t cols, uint8_t* panel, const F& f) {
  const int64_t padded = int4_columns(cols, header.group);
  for (int64_t first = 0; first < padded;
       first += header.group, panel += int4_group_bytes(header)) {
    const int64_t columns = std::min<int64_t>(header.group, padded - first);
    uint8_t* const scales = panel + bytes_of_codes(header.values, columns);
    f(Group{first, std::min(columns, cols - first), panel, scales,
            scales + kInt8Panel * size_of_scale(header.scales) * scales_of_group(header)});
  }
}

uint8_t to_power(float scale) {
  if (std::isnan(scale)) return 255;
  return scale == 0 ? 0 : static_cast<uint8_t>((std::bit_cast<uint32_t>(scale) >> 23) + 1);
}
float from_power(uint8_t byte) {
  if (byte == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(static_cast<uint32_t>(std::max(byte - 1, 0)) << 23);
}

void store_scale(CodeScales type, float scale, uint8_t* to) {
  const auto store = [&](auto bits) { std::memcpy(to, &bits, sizeof bits); };
  switch (type) {
    case CodeScales::kF32: return store(scale);
    case CodeScales::kBF16: return store(to_bf16(scale));
    case CodeScales::kF16: return store(to_f16(scale));
    case CodeScales::kE8M0: return store(to_power(scale));
  }
}
float load_scale(CodeScales type, const uint8_t* from) {
  const auto load = [&](auto bits) {
    std::memcpy(&bits, from, sizeof bits);
    return bits;
  };
  switch (type) {
    case CodeScales::kF32: return load(0.0f);
    case CodeScales::kBF16: return from_bf16(load(uint16_t{}));
    case CodeScales::kF16: return from_f16(load(uint16_t{}));
    case CodeScales::kE8M0: return from_power(*from);
  }
  return 0;
}

// Eight columns of the output at a place of its panel.
void store_eight(CodeValues values, const uint8_t* codes, int64_t place, uint8_t* eight) {
  uint32_t halves[2];
  std::memcpy(halves, codes, sizeof halves);
  uint8_t* const to = eight + place * kFour;
  if (values == CodeValues::kBytes) {
    for (int half = 0; half < 2; ++half) {
      const uint32_t flipped = halves[half] ^ 0x80808080u;
      std::memcpy(to + half * kInt4EightBytes, &flipped, sizeof flipped);
    }
    return;
  }
  const uint32_t both = (halves[0] & 0x0f0f0f0fu) | (halves[1] & 0x0f0f0f0fu) << 4;
  std::memcpy(to, &both, sizeof both);
  if (bits_of(values) == 4) return;
  const int64_t vector = place * kFour / 64;
  for (int half = 0; half < 2; ++half) {
    uint8_t* high = eight + kInt4EightBytes + place * kFour % 64;
    if (values == CodeValues::kUniform6) high += 64 * half;
    const int64_t shift = values == CodeValues::kUniform6 ? 2 * vector : vector + 4 * half;
    uint32_t bits = 0;
    std::memcpy(&bits, high, sizeof bits);
    bits |= (halves[half] >> 4 & 0x0f0f0f0fu) << shift;
    std::memcpy(high, &bits, sizeof bits);
  }
}
int code_at(CodeValues values, const uint8_t* eight, int64_t place, int64_t column) {
  const int64_t half = column / kFour, at = place * kFour + column % kFour;
  if (values == CodeValues::kBytes) return eight[half * kInt4EightBytes + at] ^ 0x80;
  const int code = half == 0 ? eight[at] & 15 : eight[at] >> 4;
  const uint8_t* const high = eight + kInt4EightBytes + at % 64;
  if (values == CodeValues::kUniform5) return code | (*high >> (at / 64 + 4 * half) & 1) << 4;
  if (values == CodeValues::kUniform6) return code | (high[64 * half] >> at / 64 * 2 & 3) << 4;
  return code;
}

}  // namespace

int64_t int4_bytes(const CodeSource& source) {
  const Int4Header header = header_of(source);
  const int64_t order = header.order_at > 0 ? source.cols * int64_t{sizeof(int32_t)} : 0;
  return int64_t{sizeof header} + int8_panels(source.rows) * int4_panel_bytes(header, source.cols) +
         order;
}

Tensor begin_int4(const CodeSource& source, char* packed) {
  const Int4Header header = header_of(source);
  std::memcpy(packed, &header, sizeof header);
  if (header.order_at > 0) {
    std::memcpy(packed + header.order_at, source.column_order.data(),
                source.column_order.size() * sizeof(int32_t));
  }
  return {.data = packed,
          .dtype = DType::kI4,
          .rows = source.rows,
          .cols = source.cols,
          .stride = int4_panel_bytes(header, source.cols),
          .layout = Layout::kPanels};
}

void pack_int4_rows(const CodeSource& source, int64_t first, int64_t count, const Tensor& matrix) {
  const Int4Header& header = header_in(matrix);
  const int64_t cols = source.cols;
  std::vector<uint8_t> codes(static_cast<size_t>(count * cols));
  std::vector<uint8_t> bytes(static_cast<size_t>(count * source.bytes_of_row()));
  std::vector<float> scales(static_cast<size_t>(count * source.scales_of_row()));
  source.read(first, count, codes.data(), scales.data(), bytes.empty() ? nullptr : bytes.data());
  std::vector<uint8_t> ordered(
      static_cast<size_t>((cols + kInt8Group - 1) / kInt8Group * kInt8Group));
  const int64_t group_size = source.group == 0 ? cols : source.group;
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* const row = codes.data() + i * cols;
    if (source.column_order.empty()) {
      std::copy_n(row, cols, ordered.begin());
    } else {
      std::ranges::transform(source.column_order, ordered.begin(),
                             [&](int32_t column) { return row[column]; });
    }
    const int64_t place = (first + i) % kInt8Panel;
    for_groups(header, cols, panel_of(matrix, first + i), [&](const Group& group) {
      for (int64_t c = 0; c < group.count; c += kInt4Eight) {
        store_eight(header.values, &ordered[static_cast<size_t>(group.first + c)], place,
                    group.codes + bytes_of_codes(header.values, c));
      }
      const int64_t at = i * source.num_groups() + group.first / group_size;
      for (int64_t j = 0; j < source.scales_of_group(); ++j) {
        store_scale(header.scales, scales[static_cast<size_t>(at * source.scales_of_group() + j)],
                    group.scales + (j * kInt8Panel + place) * size_of_scale(header.scales));
      }
      for (int64_t j = 0; j < source.bytes_of_group(); ++j) {
        group.bytes[j * kInt8Panel + place] =
            bytes[static_cast<size_t>(at * source.bytes_of_group() + j)];
      }
    });
  }
}

void widen_int4_row(const Tensor& weights, int64_t i, float* y) {
  const Int4Header& header = header_in(weights);
  const int32_t* const order = column_order(weights);
  const int64_t place = i % kInt8Panel;
  const CodeSource shape = {
      .group = header.group, .sub_group = header.sub_group, .has_minima = header.has_minima};
  for_groups(header, weights.cols, panel_of(weights, i), [&](const Group& group) {
    float scales[2];
    uint8_t bytes[2 * kMaxCodeGroups];
    for (int j = 0; j < scales_of_group(header); ++j) {
      scales[j] = load_scale(
          header.scales, group.scales + (j * kInt8Panel + place) * size_of_scale(header.scales));
    }
    for (int j = 0; j < bytes_of_group(header); ++j) bytes[j] = group.bytes[j * kInt8Panel + place];
    const int zero = header.has_zeros ? bytes[0] : header.zero;
    for (int64_t c = 0; c < group.count; ++c) {
      const int code = code_at(
          header.values, group.codes + bytes_of_codes(header.values, c / kInt4Eight * kInt4Eight),
          place, c % kInt4Eight);
      const int64_t column = group.first + c;
      y[order == nullptr ? column : order[column]] =
          value_of_number(shape, value_of_code(header.values, code) - zero, scales, bytes, c);
    }
  });
}

const int32_t* column_order(const Tensor& weights) {
  if (weights.dtype != DType::kI4 || header_in(weights).order_at == 0) return nullptr;
  return reinterpret_cast<const int32_t*>(static_cast<const char*>(weights.data) +
                                          header_in(weights).order_at);
}

}  // namespace pagedinfer
