// What the tests of the CPU operations share: random numbers, matrices, bit comparisons.
#pragma once

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/denormals.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/kernels.h"

namespace pagedinfer {

inline std::vector<DrawnToken> collect(StepProtocol& steps, StepProtocol::Ticket ticket,
                                       size_t count) {
  std::vector<DrawnToken> drawn(count);
  steps.collect(ticket, drawn);
  return drawn;
}
// What was drawn, without the rest.
inline std::vector<TokenId> collect_tokens(StepProtocol& steps, StepProtocol::Ticket ticket,
                                           size_t count) {
  std::vector<TokenId> tokens;
  for (const DrawnToken& token : collect(steps, ticket, count)) tokens.push_back(token.token);
  return tokens;
}

struct Random {
  uint64_t state;

  uint64_t bits() {  // splitmix64
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int below(int n) { return static_cast<int>(bits() % static_cast<uint64_t>(n)); }
  int between(int first, int last) { return first + below(last - first + 1); }
  float unit() { return static_cast<float>(bits() >> 40) * 0x1p-24f; }
  float normal() { return std::sqrt(-2 * std::log(1 - unit())) * std::cos(6.2831853f * unit()); }
  std::vector<float> normals(size_t n, float scale = 1) {
    std::vector<float> x(n);
    for (float& a : x) a = normal() * scale;
    return x;
  }
};

// At most `max_count` biases of about 5, at most one for each token, as SampleRow wants them.
inline std::vector<TokenBias> random_biases(Random& random, int max_count, int vocab) {
  std::set<TokenId> tokens;
  for (int i = random.between(0, max_count); i > 0; --i) tokens.insert(random.below(vocab));
  std::vector<TokenBias> biases;
  for (const TokenId token : tokens) biases.push_back({token, 5 * random.normal()});
  return biases;
}

inline uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
inline float from_bits(uint32_t x) { return std::bit_cast<float>(x); }
inline float widen(bf16 x) { return from_bits(static_cast<uint32_t>(x.bits) << 16); }

// Whether the bits are equal. All NaNs count as equal.
inline bool same(float a, float b) { return bits_of(a) == bits_of(b) || (a != a && b != b); }
inline int64_t count_differences(std::span<const float> a, std::span<const float> b) {
  int64_t n = a.size() != b.size();
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) n += !same(a[i], b[i]);
  return n;
}

// The tables of kernels that this processor can run, and their names for the log.
inline std::vector<const Kernels*> usable_kernels() {
  std::vector<const Kernels*> usable;
  for (const CpuIsa isa : available_isas()) {
    if (isa != CpuIsa::kAmx) usable.push_back(&kernels_of(isa));
  }
  return usable;
}
inline std::string isa_names() {
  std::string names;
  for (const CpuIsa isa : available_isas()) {
    names += std::string(names.empty() ? "" : ", ") + name_of(isa);
  }
  return names;
}

// sum_row's definition.
inline float interleaved_sum(std::span<const float> x) {
  float lane[16] = {};
  for (size_t i = 0; i < x.size(); ++i) lane[i % 16] += x[i];
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}

inline Tensor view(std::vector<float>& x, int64_t rows, int64_t cols) {
  return {x.data(), DType::kF32, rows, cols, cols};
}

}  // namespace pagedinfer
