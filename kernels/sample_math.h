// The arithmetic of sampling on single numbers. Shared by the kernels and their tests.
#pragma once

#include "kernels/exact_math.h"
#include "kernels/sample.h"

namespace pagedinfer::kernels {

constexpr int kWeightBlock = 256;  // weights per block; a block is summed in float32
constexpr int kSumLanes = 16;      // interleaved partial sums of a block

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
// Whether the row needs the sum of the weights of the whole vocabulary.
KERNEL_HD inline bool needs_all_weights(const SampleRowArgs& row, int vocabulary) {
  return !is_greedy(row) && !has_top_k(row, vocabulary) &&
         (row.top_p < 1.0f || !(row.min_p > 0.0f));
}

KERNEL_HD inline bool has_raw_row(const SampleRowArgs& row) { return row.num_candidates >= 0; }

// A token's logit after the penalties. `generated` is the number of its occurrences in the
// completion. Repetition: Keskar et al. 2019; presence and frequency: as in OpenAI's API.
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

// exp((x - largest) / temperature), 0 if x is not finite.
KERNEL_HD inline float weight_of(float x, float largest, float temperature) {
  return is_finite(x) ? exact_exp(div_rn(sub_rn(x, largest), temperature)) : 0.0f;
}

// Maps finite floats to positive integers in the same order, -0 and 0 to the same one. 0: x is not
// finite.
KERNEL_HD inline uint32_t rank_of(float x) {
  if (!is_finite(x)) return 0;
  const uint32_t bits = bits_of_float(x == 0.0f ? 0.0f : x);
  return bits >> 31 ? ~bits : bits | 0x80000000;
}
// The float that has this rank.
KERNEL_HD inline float number_of(uint32_t rank) {
  return float_of_bits(rank >> 31 ? rank & 0x7fffffff : ~rank);
}

// A candidate as one integer. Ascending keys are the order of sampling: descending logits, then
// ascending ids.
KERNEL_HD inline uint64_t key_of(float x, int id) {
  return uint64_t{~rank_of(x)} << 32 | static_cast<uint32_t>(id);
}
KERNEL_HD inline float logit_of(uint64_t key) {
  return number_of(~static_cast<uint32_t>(key >> 32));
}
KERNEL_HD inline int id_of(uint64_t key) { return static_cast<int>(static_cast<uint32_t>(key)); }

// A bitonic sorting network (Batcher 1968) for any number of keys. For size = 2, 4, ... it runs the
// round flip(size), then the rounds step(size / 4), step(size / 8), ... step(1). A round compares
// the pairs with indices 0, 1, ... and puts the smaller key of each pair first. Pairs that reach
// beyond the last key are skipped.
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
// The random number in [0, 1) of a row's draw: the bits of uniform() in core/philox.h.
KERNEL_HD constexpr float uniform_of(uint64_t key, uint32_t sample, uint32_t position) {
  return static_cast<float>(philox_first(sample, position, 0, 0, static_cast<uint32_t>(key),
                                         static_cast<uint32_t>(key >> 32)) >>
                            8) *
         0x1p-24f;
}

}  // namespace pagedinfer::kernels
