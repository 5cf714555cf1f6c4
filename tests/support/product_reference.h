// Matrix products as plain loops: the definitions that every kernel must reproduce bit by bit.
// REQUIRES: the calling thread flushes denormals to zero.
#pragma once

#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "core/tensor.h"

namespace pagedinfer {

inline uint16_t bf16_bits(float x) {
  if (std::isnan(x)) return 0x7fc0;
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float from_bf16_bits(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }
inline float rounded(float x) { return from_bf16_bits(bf16_bits(x)); }

inline float from_f16_bits(uint16_t x) {
  const int exponent = x >> 10 & 31, mantissa = x & 1023;
  const float sign = x >> 15 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(float(1024 + mantissa), exponent - 25)
                          : std::ldexp(float(mantissa), -24));
}
// Truncates: for test data any rounding will do.
inline uint16_t f16_bits(float x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return 0x7e00;
  const float size = std::fabs(x);
  if (size >= 65536.0f) return sign | 0x7c00;
  if (size < 0x1p-14f) return sign | static_cast<uint16_t>(std::ldexp(size, 24));
  const auto bits = std::bit_cast<uint32_t>(size);
  return static_cast<uint16_t>(sign | ((bits >> 13) - (112 << 10)));
}

// x after it was stored as `type`.
inline float as_stored(float x, DType type) {
  if (type == DType::kBF16) return rounded(x);
  if (type == DType::kF16) return from_f16_bits(f16_bits(x));
  return x;
}

inline void store_numbers(const float* from, int64_t n, DType type, void* to) {
  for (int64_t i = 0; i < n; ++i) {
    if (type == DType::kF32) {
      std::memcpy(static_cast<char*>(to) + 4 * i, from + i, 4);
    } else {
      const uint16_t bits = type == DType::kBF16 ? bf16_bits(from[i]) : f16_bits(from[i]);
      std::memcpy(static_cast<char*>(to) + 2 * i, &bits, 2);
    }
  }
}

// Memory whose end is followed by a page that cannot be read.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t size) : size_(size), mapped_((size + 4095) / 4096 * 4096 + 4096) {
    base_ = static_cast<char*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + mapped_ - 4096, 4096, PROT_NONE) != 0) std::abort();
  }
  ~GuardedBytes() { munmap(base_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  char* data() const { return base_ + mapped_ - 4096 - size_; }

 private:
  const size_t size_, mapped_;
  char* base_;
};

// A product of factors rounded to bfloat16: per 32 columns, one fma chain over the even columns and
// one over the odd ones.
inline float amx_order(const float* x, const float* w, int k) {
  float total = 0;
  for (int step = 0; step < k; step += 32) {
    float chain[2] = {0, 0};
    for (int i = step; i < step + 32; ++i) {  // +0 beyond k
      chain[i % 2] =
          std::fma(i < k ? rounded(x[i]) : 0.0f, i < k ? rounded(w[i]) : 0.0f, chain[i % 2]);
    }
    total = total + (chain[0] + chain[1]);
  }
  return total;
}

inline float interleaved(const float* x, const float* w, int k) {
  float lane[16] = {};
  for (int i = 0; i < (k + 15) / 16 * 16; ++i) {
    lane[i % 16] = std::fma(i < k ? x[i] : 0.0f, i < k ? w[i] : 0.0f, lane[i % 16]);
  }
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}

// Whether the bits are equal. All NaNs count as equal.
inline int64_t num_different(const std::vector<float>& a, const std::vector<float>& b) {
  int64_t n = a.size() != b.size();
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    n += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]) &&
         !(std::isnan(a[i]) && std::isnan(b[i]));
  }
  return n;
}

// Ordinary numbers; products about the smallest normal one; any bits; zeros, ties and
// cancellation; numbers whose products and sums overflow.
enum class Numbers { kNormal, kTiny, kAnyBits, kTies, kHuge };
constexpr int kNumKindsOfNumbers = 5;

inline std::vector<float> random_numbers(std::mt19937& random, size_t n, Numbers numbers) {
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& a : x) {
    switch (numbers) {
      case Numbers::kNormal: a = normal(random); break;
      case Numbers::kTiny: a = normal(random) * 1e-19f; break;
      case Numbers::kAnyBits: {
        a = std::bit_cast<float>(static_cast<uint32_t>(random()));
        if (random() % 64) a = std::ldexp(normal(random), int(random() % 120) - 60);
        break;
      }
      case Numbers::kTies: {
        const int whole = static_cast<int>(random() % 5) - 2;
        a = float(whole) * (random() % 9 ? 1 : 0x1p-63f);
        break;
      }
      case Numbers::kHuge: a = normal(random) * 3e18f; break;
    }
  }
  return x;
}

}  // namespace pagedinfer
