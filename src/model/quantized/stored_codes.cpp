#include "model/quantized/stored_codes.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace pagedinfer {
namespace {

CodeScales scales_of(DType type) {
  if (type == DType::kF16) return CodeScales::kF16;
  return type == DType::kBF16 ? CodeScales::kBF16 : CodeScales::kF32;
}

}  // namespace

std::optional<CodeSource> codes_in_groups(int64_t rows, int64_t cols, int64_t size,
                                          DType scale_type,
                                          std::span<const int32_t> group_of_column) {
  const int64_t group = size >= cols ? 0 : size;
  if (!can_keep_groups(group, cols)) return std::nullopt;
  CodeSource source = {.rows = rows, .cols = cols, .group = group, .scales = scales_of(scale_type)};
  if (group == 0 || group_of_column.empty()) return source;
  std::vector<int32_t> order(static_cast<size_t>(cols));
  std::iota(order.begin(), order.end(), 0);
  const auto group_of = [&](int32_t column) {
    return group_of_column[static_cast<size_t>(column)];
  };
  std::ranges::stable_sort(order, {}, group_of);
  for (int64_t i = 0; i < cols; ++i) {
    if (group_of(order[static_cast<size_t>(i)]) != i / group) return std::nullopt;
  }
  if (!std::ranges::is_sorted(order)) source.column_order = std::move(order);
  return source;
}

}  // namespace pagedinfer
