// The 8-bit floats of checkpoints.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "core/float16.h"
#include "model/quantized/block_scales.h"
#include "model/quantized/stored_part.h"

namespace pagedinfer {

constexpr std::string_view kFp8Types[] = {"F8_E4M3", "F8_E5M2"};

// E4M3 (FN): a sign, 4 bits of exponent, 3 of fraction; no infinity, and 0x7f is NaN.
inline float from_e4m3(uint8_t x) {
  const int exponent = x >> 3 & 15, fraction = x & 7;
  float value = static_cast<float>(fraction) * 0x1p-9f;
  if (exponent > 0) value = static_cast<float>((8 + fraction) << exponent) * 0x1p-10f;
  if (exponent == 15 && fraction == 7) value = std::numeric_limits<float>::quiet_NaN();
  return x >= 128 ? -value : value;
}

// E5M2: the upper half of a float16.
inline float from_e5m2(uint8_t x) { return from_f16(static_cast<uint16_t>(x << 8)); }

// The codes of a matrix of one of kFp8Types.
inline ReadCodes read_fp8_codes(const StoredTensor& tensor, int64_t cols) {
  std::array<float, 256> values;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto code = static_cast<uint8_t>(i);
    values[i] = tensor.type == "F8_E4M3" ? from_e4m3(code) : from_e5m2(code);
  }
  return [values, codes = numbers_of<uint8_t>(tensor).data(), cols](int64_t row, float* out) {
    const uint8_t* const from = codes + row * cols;
    for (int64_t i = 0; i < cols; ++i) out[i] = values[from[i]];
  };
}

}  // namespace pagedinfer
