#include "model/quantized/gguf_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "core/float16.h"

namespace pagedinfer {
namespace {

constexpr int kLarge = 256;  // numbers of a block of the "K" types

float half_at(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return from_f16(bits);
}
template <class T>
T integer_at(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
uint8_t signed_byte(int value) { return static_cast<uint8_t>(static_cast<int8_t>(value)); }

// 32 codes: the lower halves of 16 bytes, then the upper ones.
void read_halves(const uint8_t* bytes, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = bytes[i] & 15;
    codes[i + 16] = bytes[i] >> 4;
  }
}
// The fifth bit of code i is bit i of a word.
void add_fifth_bits(const uint8_t* word, uint8_t* codes) {
  const auto bits = integer_at<uint32_t>(word);
  for (int i = 0; i < 32; ++i) codes[i] |= static_cast<uint8_t>((bits >> i & 1) << 4);
}

// Blocks of 32.

// Q4_0 and IQ4_NL.
void read_four_bits(const uint8_t* block, uint8_t* codes, float* scales, uint8_t*) {
  scales[0] = half_at(block);
  read_halves(block + 2, codes);
}
void read_q5_0(const uint8_t* block, uint8_t* codes, float* scales, uint8_t*) {
  scales[0] = half_at(block);
  read_halves(block + 6, codes);
  add_fifth_bits(block + 2, codes);
}
void read_q8_0(const uint8_t* block, uint8_t* codes, float* scales, uint8_t*) {
  scales[0] = half_at(block);
  std::copy_n(block + 2, 32, codes);
}
// The scale is a power of two, by its exponent, for numbers that are twice those of e2m1. It is 0
// if it is no normal number, and 255 is NaN.
void read_mxfp4_block(const uint8_t* block, uint8_t* codes, float* scales, uint8_t*) {
  const uint32_t exponent = block[0];
  scales[0] = std::bit_cast<float>(exponent == 255 ? 0x7fc00000
                                   : exponent < 2  ? 0
                                                   : (exponent - 1) << 23);
  read_halves(block + 1, codes);
}

// code * scale + the least number, whose minus is the minimum.
void read_scale_and_least(const uint8_t* block, float* scales) {
  scales[0] = half_at(block);
  scales[1] = -half_at(block + 2);
}
void read_q4_1(const uint8_t* block, uint8_t* codes, float* scales, uint8_t*) {
  read_scale_and_least(block, scales);
  read_halves(block + 4, codes);
}
void read_q5_1(const uint8_t* block, uint8_t* codes, float* scales, uint8_t*) {
  read_scale_and_least(block, scales);
  read_halves(block + 8, codes);
  add_fifth_bits(block + 4, codes);
}

// Blocks of 256.

// Makes the codes of a block: f(run, i) is code 32 * run + i. The compiler turns a run into
// vectors.
template <class F>
void for_runs(uint8_t* codes, const F& f) {
  for (int run = 0; run < kLarge / 32; ++run, codes += 32) {
    for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(f(run, i));
  }
}
// Two bits of a code, in four planes for each half of a block.
int two_bits(const uint8_t* planes, int run, int i) {
  return planes[run / 4 * 32 + i] >> 2 * (run % 4) & 3;
}

void read_q2_k(const uint8_t* block, uint8_t* codes, float* scales, uint8_t* bytes) {
  scales[0] = half_at(block + 80);
  scales[1] = half_at(block + 82);
  for (int group = 0; group < 16; ++group) {
    bytes[group] = block[group] & 15;
    bytes[16 + group] = block[group] >> 4;
  }
  for_runs(codes, [&](int run, int i) { return two_bits(block + 16, run, i); });
}

void read_q3_k(const uint8_t* block, uint8_t* codes, float* scales, uint8_t* bytes) {
  const uint8_t *const high = block, *packed = block + 96;
  scales[0] = half_at(block + 108);
  for (int group = 0; group < 16; ++group) {
    const int low_bits = packed[group % 8] >> (group < 8 ? 0 : 4) & 15;
    const int high_bits = packed[8 + group % 4] >> 2 * (group / 4) & 3;
    bytes[group] = signed_byte((low_bits | high_bits << 4) - 32);
  }
  for_runs(codes, [&](int run, int i) {
    return two_bits(block + 32, run, i) | (high[i] >> run & 1) << 2;
  });
}

// The scales and minima of the eight groups of Q4_K and Q5_K, 6 bits each.
void read_k_groups(const uint8_t* block, float* scales, uint8_t* bytes) {
  scales[0] = half_at(block);
  scales[1] = half_at(block + 2);
  const uint8_t* const packed = block + 4;
  for (int group = 0; group < 4; ++group) {
    bytes[group] = packed[group] & 63;
    bytes[8 + group] = packed[group + 4] & 63;
    const uint8_t both = packed[group + 8];
    bytes[4 + group] = static_cast<uint8_t>((both & 15) | packed[group] >> 6 << 4);
    bytes[12 + group] = static_cast<uint8_t>(both >> 4 | packed[group + 4] >> 6 << 4);
  }
}
// The lower halves of 32 bytes, then the upper ones, four times.
void read_k_codes(const uint8_t* from, uint8_t* codes) {
  for_runs(codes, [&](int run, int i) { return from[run / 2 * 32 + i] >> run % 2 * 4 & 15; });
}
void read_q4_k(const uint8_t* block, uint8_t* codes, float* scales, uint8_t* bytes) {
  read_k_groups(block, scales, bytes);
  read_k_codes(block + 16, codes);
}
void read_q5_k(const uint8_t* block, uint8_t* codes, float* scales, uint8_t* bytes) {
  read_k_groups(block, scales, bytes);
  read_k_codes(block + 48, codes);
  for_runs(codes,
           [&](int run, int i) { return codes[run * 32 + i] | (block[16 + i] >> run & 1) << 4; });
}

void read_q6_k(const uint8_t* block, uint8_t* codes, float* scales, uint8_t* bytes) {
  const uint8_t *const low = block, *high = block + 128;
  scales[0] = half_at(block + 208);
  std::copy_n(block + 192, 16, bytes);
  for_runs(codes, [&](int run, int i) {
    const int half = run / 4, quarter = run % 4;
    const int four = low[half * 64 + quarter % 2 * 32 + i] >> quarter / 2 * 4 & 15;
    return four | two_bits(high, run, i) << 4;
  });
}

void read_iq4_xs(const uint8_t* block, uint8_t* codes, float* scales, uint8_t* bytes) {
  scales[0] = half_at(block);
  const auto high = integer_at<uint16_t>(block + 2);
  for (int group = 0; group < 8; ++group) {
    const int low = block[4 + group / 2] >> group % 2 * 4 & 15;
    bytes[group] = signed_byte((low | (high >> 2 * group & 3) << 4) - 32);
    read_halves(block + 8 + group * 16, codes + group * 32);
  }
}

constexpr BlockType kBlockTypes[] = {
    {.name = "Q4_0", .read_codes = read_four_bits, .zero = 8},
    {.name = "Q4_1", .read_codes = read_q4_1, .has_minima = true},
    {.name = "Q5_0", .read_codes = read_q5_0, .values = CodeValues::kUniform5, .zero = 16},
    {.name = "Q5_1", .read_codes = read_q5_1, .values = CodeValues::kUniform5, .has_minima = true},
    {.name = "Q8_0", .read_codes = read_q8_0, .values = CodeValues::kBytes},
    {.name = "IQ4_NL", .read_codes = read_four_bits, .values = CodeValues::kTable},
    {.name = "MXFP4",
     .read_codes = read_mxfp4_block,
     .values = CodeValues::kFp4,
     .scales = CodeScales::kE8M0},
    {.name = "Q2_K", .read_codes = read_q2_k, .sub_group = 16, .has_minima = true},
    {.name = "Q3_K", .read_codes = read_q3_k, .zero = 4, .sub_group = 16},
    {.name = "Q4_K", .read_codes = read_q4_k, .sub_group = 32, .has_minima = true},
    {.name = "Q5_K",
     .read_codes = read_q5_k,
     .values = CodeValues::kUniform5,
     .sub_group = 32,
     .has_minima = true},
    {.name = "Q6_K",
     .read_codes = read_q6_k,
     .values = CodeValues::kUniform6,
     .zero = 32,
     .sub_group = 16},
    {.name = "IQ4_XS", .read_codes = read_iq4_xs, .values = CodeValues::kTable, .sub_group = 32},
};

}  // namespace

const BlockType* find_block_type(std::string_view name) {
  const auto* const found = std::ranges::find(kBlockTypes, name, &BlockType::name);
  return found == std::end(kBlockTypes) ? nullptr : found;
}

std::string known_block_types() {
  std::string names;
  for (const BlockType& type : kBlockTypes) {
    names.append(names.empty() ? "" : ", ").append(type.name);
  }
  return names;
}

}  // namespace pagedinfer
