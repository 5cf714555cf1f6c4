#include "model/dummy.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/float16.h"

namespace pagedinfer {
namespace {

constexpr int kNumValues = 256;

// A hash of the name (FNV-1a).
uint64_t seed_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// Eight random bytes for the elements 8 * block, 8 * block + 1, ..., the lowest byte first
// (SplitMix64: Steele, Lea and Flood 2014).
uint64_t random_bytes(uint64_t seed, uint64_t block) {
  uint64_t z = seed + (block + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Converts a bfloat16 value to float16, which has more digits. Exact, but values below its normal
// range become 0.
uint16_t normal_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127 + 15;
  if (exponent <= 0) return static_cast<uint16_t>(sign);
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(exponent) << 10 | (bits >> 13 & 0x3ff));
}

template <class T>
void fill(uint64_t seed, const std::array<T, kNumValues>& values, T* data, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    uint64_t bytes = random_bytes(seed, static_cast<uint64_t>(i / 8));
    for (int j = 0; j < 8; ++j, bytes >>= 8) data[i + j] = values[bytes & 0xff];
  }
  uint64_t bytes = random_bytes(seed, static_cast<uint64_t>(i / 8));
  for (; i < count; ++i, bytes >>= 8) data[i] = values[bytes & 0xff];
}

}  // namespace

void fill_dummy(std::string_view name, DummyRange range, Tensor tensor) {
  std::array<float, kNumValues> values;
  std::array<uint16_t, kNumValues> halves;
  for (int i = 0; i < kNumValues; ++i) {
    const float unit = static_cast<float>(2 * i - (kNumValues - 1)) / kNumValues;
    values[i] = from_bf16(to_bf16(range.center + unit * range.amplitude));
    halves[i] = tensor.dtype == DType::kF16 ? normal_f16(values[i]) : to_bf16(values[i]);
  }
  const int64_t count = tensor.rows * tensor.cols;
  if (tensor.dtype == DType::kF32) return fill(seed_of(name), values, tensor.row<float>(0), count);
  fill(seed_of(name), halves, tensor.row<uint16_t>(0), count);
}

}  // namespace pagedinfer
