// The arithmetic of sampling, one number at a time.
#pragma once

#include "kernels/exact_math.h"
#include "kernels/sample.h"

namespace pagedinfer::kernels {

constexpr int kWeightBlock = 256;  // weights that are summed in float32
constexpr int kSumLanes = 16;      // interleaved sums of a block

KERNEL_HD constexpr int ceil_of(int a, int b) { return (a + b - 1) / b; }
KERNEL_HD inline bool is_finite(float x) { return (bits_of_float(x) & 0x7f800000) != 0x7f800000; }
KERNEL_HD inline bool is_greedy(const SampleRowArgs& row) { return row.temperature < 0x1p-126f; }
KERNEL_HD inline bool has_top_k(const SampleRowArgs& row, int vocabulary) {
  return row.top_k > 0 && row.top_k < vocabulary;
}
KERNEL_HD inline bool has_penalties(const SampleRowArgs& row) {
  return row.repetition_penalty != 1.0f || row.presence_penalty != 0.0f ||
         row.frequency_penalty != 0.0f;
}
KERNEL_HD inline bool is_filtered(const SampleRowArgs& row, int vocabulary) {
  return has_top_k(row, vocabulary) || row.top_p < 1.0f || row.min_p > 0.0f;
}
// Whether the weights of the whole vocabulary are summed.
KERNEL_HD inline bool needs_all_weights(const SampleRowArgs& row, int vocabulary) {
  return !is_greedy(row) && !has_top_k(row, vocabulary) &&
         (row.top_p < 1.0f || !(row.min_p > 0.0f));
}

// A token's logit after the penalties; `generated` = times among the completion's tokens.
KERNEL_HD inline float penalized(float x, const SampleRowArgs& row, bool in_prompt, int generated) {
  if (row.repetition_penalty != 1.0f && (in_prompt || generated > 0)) {
    x = x > 0 ? div_rn(x, row.repetition_penalty) : mul_rn(x, row.repetition_penalty);
  }
  if (generated > 0 && (row.presence_penalty != 0.0f || row.frequency_penalty != 0.0f)) {
    x = sub_rn(x, mul_rn(row.frequency_penalty, static_cast<float>(generated)));
    x = sub_rn(x, row.presence_penalty);
  }
  return x;
}

KERNEL_HD inline float weight_of(float x, float largest, float temperature) {
  return is_finite(x) ? exact_exp(div_rn(sub_rn(x, largest), temperature)) : 0.0f;
}

// Larger numbers have larger ranks; both zeros have the same; 0 if not finite.
KERNEL_HD inline uint32_t rank_of(float x) {
  if (!is_finite(x)) return 0;
  const uint32_t bits = bits_of_float(x == 0.0f ? 0.0f : x);
  return bits >> 31 ? ~bits : bits | 0x80000000;
}
KERNEL_HD inline float number_of(uint32_t rank) {
  return float_of_bits(rank >> 31 ? rank & 0x7fffffff : ~rank);
}

// Candidates in the order of sampling are ascending keys.
KERNEL_HD inline uint64_t key_of(float x, int id) {
  return uint64_t{~rank_of(x)} << 32 | static_cast<uint32_t>(id);
}
KERNEL_HD inline float logit_of(uint64_t key) {
  return number_of(~static_cast<uint32_t>(key >> 32));
}
KERNEL_HD inline int id_of(uint64_t key) { return static_cast<int>(static_cast<uint32_t>(key)); }

// A sorting network for any number of keys, by rounds: for size = 2, 4, ... the flip of that size
// and then the steps of distance size / 4, size / 8, ... 1. Each compares the pairs of its indices
// 0, 1, ... and puts the smaller key first; a pair beyond the end is left out.
struct KeyPair {
  int low, high;
};
KERNEL_HD constexpr KeyPair flip_pair(int index, int size) {
  const int half = size / 2, first = index / half * size, within = index % half;
  return {first + within, first + size - 1 - within};
}
KERNEL_HD constexpr KeyPair step_pair(int index, int distance) {
  const int low = index / distance * 2 * distance + index % distance;
  return {low, low + distance};
}

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011): the first of the four numbers.
KERNEL_HD constexpr uint32_t philox_first(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3,
                                          uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53} * c0, b = uint64_t{0xcd9e8d57} * c2;
    c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(b);
    c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(a);
    k0 += 0x9e3779b9;
    k1 += 0xbb67ae85;
  }
  return c0;
}
// The random number in [0, 1) of a row's draw.
KERNEL_HD constexpr float uniform_of(uint64_t key, uint32_t sample, uint32_t position) {
  return static_cast<float>(philox_first(sample, position, 0, 0, static_cast<uint32_t>(key),
                                         static_cast<uint32_t>(key >> 32)) >>
                            8) *
         0x1p-24f;
}

}  // namespace pagedinfer::kernels
