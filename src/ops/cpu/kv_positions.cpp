#include "ops/cpu/kv_positions.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "ops/cpu/kv_layout.h"

namespace pagedinfer {
namespace {

// Writes n numbers to a row of the cache, in its type, and zeros to the rest of the row. Returns
// the row's scale, or 1 if the type has none.
float round_row(const Kernels& kernels, const float* x, int n, const Tensor& cache, char* row) {
  const int64_t bytes = n * size_of(cache.dtype);
  float scale = 1;
  switch (cache.dtype) {
    case DType::kF32: std::memcpy(row, x, static_cast<size_t>(bytes)); break;
    case DType::kBF16: kernels.to_bf16(x, reinterpret_cast<bf16*>(row), n); break;
    case DType::kF16: kernels.to_f16(x, reinterpret_cast<f16*>(row), n); break;
    case DType::kI8: scale = kernels.to_int8(x, reinterpret_cast<int8_t*>(row), n); break;
    case DType::kI32:
    case DType::kI4: CHECK(false);
  }
  std::memset(row + bytes, 0, static_cast<size_t>(cache.cols * size_of(cache.dtype) - bytes));
  return scale;
}

template <class Unit>
void interleave(const char* key, int64_t num_units, int64_t row, char* keys) {
  for (int64_t i = 0; i < num_units; ++i) {
    std::memcpy(keys + key_unit(row, i, num_units) * int64_t{sizeof(Unit)},
                key + i * int64_t{sizeof(Unit)}, sizeof(Unit));
  }
}

}  // namespace

void copy_positions(const KvLayer& cache, int head, int64_t source, int64_t destination,
                    int64_t count) {
  const int64_t row_bytes = cache.k.cols * size_of(cache.k.dtype);
  const int64_t unit_bytes = key_unit_bytes(cache.k.dtype), num_units = row_bytes / unit_bytes;
  char* const keys = static_cast<char*>(cache.k.data);
  char* const values = static_cast<char*>(cache.v.data);
  for (int64_t i = 0; i < count;) {
    const int64_t from = kv_row(source + i, head, cache.kv_heads);
    const int64_t to = kv_row(destination + i, head, cache.kv_heads);
    // The keys of a group of positions are one piece of memory, those of a single one are not.
    const bool is_group =
        from % kGroupPositions == 0 && to % kGroupPositions == 0 && count - i >= kGroupPositions;
    const int64_t rows = is_group ? kGroupPositions : 1;
    std::memcpy(values + to * row_bytes, values + from * row_bytes,
                static_cast<size_t>(rows * row_bytes));
    if (is_group) {
      std::memcpy(keys + to * row_bytes, keys + from * row_bytes,
                  static_cast<size_t>(rows * row_bytes));
    } else {
      for (int64_t unit = 0; unit < num_units; ++unit) {
        std::memcpy(keys + unit_bytes * key_unit(to, unit, num_units),
                    keys + unit_bytes * key_unit(from, unit, num_units),
                    static_cast<size_t>(unit_bytes));
      }
    }
    if (has_scales(cache.k.dtype)) {
      std::copy_n(cache.k_scale.row<float>(from), rows, cache.k_scale.row<float>(to));
      std::copy_n(cache.v_scale.row<float>(from), rows, cache.v_scale.row<float>(to));
    }
    i += rows;
  }
}

void write_position(const Kernels& kernels, const float* key, const float* value,
                    const KvLayer& cache, int64_t slot) {
  if (slot < 0) return;
  const int64_t row_bytes = cache.k.cols * size_of(cache.k.dtype);
  const int64_t unit = key_unit_bytes(cache.k.dtype), num_units = row_bytes / unit;
  const auto write_units = unit == 4   ? interleave<int32_t>
                           : unit == 2 ? interleave<int16_t>
                                       : interleave<int8_t>;
  char* const keys = static_cast<char*>(cache.k.data);
  char* const values = static_cast<char*>(cache.v.data);
  for (int head = 0; head < cache.kv_heads; ++head) {
    const int64_t column = int64_t{head} * cache.head_dim;
    const int64_t row = kv_row(slot, head, cache.kv_heads);
    alignas(64) char rounded[kMaxHeadDim * sizeof(float)];
    const float v_scale =
        round_row(kernels, value + column, cache.head_dim, cache.v, values + row * row_bytes);
    const float k_scale = round_row(kernels, key + column, cache.head_dim, cache.k, rounded);
    write_units(rounded, num_units, row, keys);
    if (!has_scales(cache.k.dtype)) continue;
    *cache.k_scale.row<float>(row) = k_scale;
    *cache.v_scale.row<float>(row) = v_scale;
  }
}

}  // namespace pagedinfer
