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

Int4Header header_of(const CodeSource& source) {
  CHECK(can_keep_groups(source.group, source.cols));
  CHECK(!source.has_zeros || source.values == CodeValues::kUniform);
  const int64_t group = source.group;
  Int4Header header = {
      .group = group == 32 || group == 64 || group == 128 ? int(group) : kInt8Group,
      .values = source.values,
      .scales = source.scales,
      .has_zeros = source.has_zeros,
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

// Columns [first, first + count) of a group; the scales follow their codes.
struct Group {
  int64_t first, count;
  uint8_t *codes, *scales, *zeros;
};
// Calls f(group) for the groups of a panel.
template <class F>
void for_groups(const Int4Header& header, int64_t cols, uint8_t* panel, const F& f) {
  const int64_t padded = int4_columns(cols, header.group);
  for (int64_t first = 0; first < padded;
       first += header.group, panel += int4_group_bytes(header)) {
    const int64_t columns = std::min<int64_t>(header.group, padded - first);
    uint8_t* const scales = panel + columns * (kInt8Panel / 2);
    f(Group{first, std::min(columns, cols - first), panel, scales,
            scales + kInt8Panel * size_of_scale(header.scales)});
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
  return {
      packed,         DType::kI4, source.rows, source.cols, int4_panel_bytes(header, source.cols),
      Layout::kPanels};
}

void pack_int4_rows(const CodeSource& source, int64_t first, int64_t count, const Tensor& matrix) {
  const Int4Header& header = header_in(matrix);
  const int64_t cols = source.cols, groups = source.num_groups();
  const auto size = static_cast<size_t>(count * groups);
  std::vector<uint8_t> codes(static_cast<size_t>(count * cols)), zeros(source.has_zeros ? size : 0);
  std::vector<float> scales(size);
  source.read(first, count, codes.data(), scales.data(), zeros.empty() ? nullptr : zeros.data());
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
        uint32_t halves[2];
        std::memcpy(halves, &ordered[static_cast<size_t>(group.first + c)], sizeof halves);
        const uint32_t both = halves[0] | halves[1] << 4;
        std::memcpy(group.codes + (c * (kInt8Panel / 2) + place * kFour), &both, sizeof both);
      }
      const auto at = static_cast<size_t>(i * groups + group.first / group_size);
      store_scale(header.scales, scales[at], group.scales + place * size_of_scale(header.scales));
      if (header.has_zeros) group.zeros[place] = zeros[at];
    });
  }
}

void widen_int4_row(const Tensor& weights, int64_t i, float* y) {
  const Int4Header& header = header_in(weights);
  const int32_t* const order = column_order(weights);
  const int64_t place = i % kInt8Panel;
  for_groups(header, weights.cols, panel_of(weights, i), [&](const Group& group) {
    const float scale =
        load_scale(header.scales, group.scales + place * size_of_scale(header.scales));
    const int middle = header.values == CodeValues::kUniform ? kUniformZero : 0;
    const int zero = header.has_zeros ? group.zeros[place] : middle;
    for (int64_t c = 0; c < group.count; ++c) {
      const uint8_t byte =
          group.codes[c / kInt4Eight * kInt4EightBytes + place * kFour + c % kFour];
      const int code = c % kInt4Eight < kFour ? byte & 15 : byte >> 4;
      const int64_t column = group.first + c;
      y[order == nullptr ? column : order[column]] =
          static_cast<float>(value_of_code(header.values, code) - zero) * scale;
    }
  });
}

const int32_t* column_order(const Tensor& weights) {
  if (weights.dtype != DType::kI4 || header_in(weights).order_at == 0) return nullptr;
  return reinterpret_cast<const int32_t*>(static_cast<const char*>(weights.data) +
                                          header_in(weights).order_at);
}

}  // namespace pagedinfer
