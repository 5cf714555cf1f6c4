#pragma once

#include <cstring>
#include <limits>

#include "ops/cpu/kv_layout.h"
#include "ops/cpu/kv_positions.h"
#include "ops/kv_layer.h"

namespace pagedinfer {

// Fills the keys and values of a position of a CPU cache with NaN, padding included. Numbers of
// int8 become what no row has, and their scales NaN.
inline void poison_position(const KvLayer& layer, int64_t slot) {
  const DType type = layer.k.dtype;
  const uint32_t nan = type == DType::kF32  ? 0x7fc00000
                       : type == DType::kI8 ? 0x80808080
                                            : 0x7fc07fc0;
  const int64_t unit_bytes = key_unit_bytes(type);
  const int64_t num_units = layer.k.cols * size_of(type) / unit_bytes;
  const auto set = [&](const Tensor& t, int64_t unit) {
    std::memcpy(static_cast<char*>(t.data) + unit_bytes * unit, &nan,
                static_cast<size_t>(unit_bytes));
  };
  for (int head = 0; head < layer.kv_heads; ++head) {
    const int64_t row = kv_row(slot, head, layer.kv_heads);
    for (int64_t i = 0; i < num_units; ++i) {
      set(layer.k, key_unit(row, i, num_units));
      set(layer.v, row * num_units + i);
    }
    for (const Tensor& scales : {layer.k_scale, layer.v_scale}) {
      if (!scales.empty()) *scales.row<float>(row) = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

}  // namespace pagedinfer
