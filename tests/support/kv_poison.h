#pragma once

#include <cstring>

#include "ops/cpu/kv_layout.h"
#include "ops/kv_layer.h"

namespace pagedinfer {

// Fills the keys and values of a position of a CPU cache with NaN, padding included.
inline void poison_position(const KvLayer& layer, int64_t slot) {
  const uint32_t nan = layer.k.dtype == DType::kF32 ? 0x7fc00000 : 0x7fc07fc0;
  const int64_t num_dwords = layer.k.cols * size_of(layer.k.dtype) / 4;
  const auto set = [&](const Tensor& t, int64_t dword) {
    std::memcpy(static_cast<char*>(t.data) + 4 * dword, &nan, 4);
  };
  for (int head = 0; head < layer.kv_heads; ++head) {
    const int64_t row = kv_row(slot, head, layer.kv_heads);
    for (int64_t i = 0; i < num_dwords; ++i) {
      set(layer.k, key_dword(row, i, num_dwords));
      set(layer.v, row * num_dwords + i);
    }
  }
}

}  // namespace pagedinfer
