// Matrices of 4 bits whose codes stay what they are in the checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "ops/code_source.h"

namespace pagedinfer {

// Whether products can keep codes that share a scale with so many columns, of more; -1 or 0: with
// all.
inline bool keeps_groups(int64_t size) { return size <= 0 || can_keep_groups(size, size + 1); }

// A CodeSource of uniform codes whose `read` and `has_zeros` are to be set. `size` columns share a
// scale; group_of_column is empty if they are neighbours. nullopt: products cannot keep such
// groups.
std::optional<CodeSource> codes_in_groups(int64_t rows, int64_t cols, int64_t size,
                                          DType scale_type,
                                          std::span<const int32_t> group_of_column);

// Whether a zero point differs from 8, which codes without zero points have. zero(group, row) is
// the zero point.
template <class Zero>
bool needs_zeros(int64_t rows, int64_t num_groups, const Zero& zero) {
  for (int64_t group = 0; group < num_groups; ++group) {
    for (int64_t row = 0; row < rows; ++row) {
      if (zero(group, row) != 8) return true;
    }
  }
  return false;
}

// Adds what `read` needs: scale(group, row) and zero(group, row), and read_codes(first, count,
// codes), which writes the codes of rows as CodeSource::read does.
template <class ReadCodes, class Scale, class Zero>
CodeSource with_codes(CodeSource source, ReadCodes read_codes, Scale scale, Zero zero) {
  const int64_t num_groups = source.num_groups();
  source.has_zeros = needs_zeros(source.rows, num_groups, zero);
  source.read = [=](int64_t first, int64_t count, uint8_t* codes, float* scales, uint8_t* zeros) {
    read_codes(first, count, codes);
    for (int64_t row = first; row < first + count; ++row) {
      for (int64_t group = 0; group < num_groups; ++group) {
        *scales++ = scale(group, row);
        if (zeros != nullptr) *zeros++ = static_cast<uint8_t>(zero(group, row));
      }
    }
  };
  return source;
}

}  // namespace pagedinfer
