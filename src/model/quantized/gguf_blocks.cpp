#include "model/quantized/gguf_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "core/float16.h"

namespace pagedinfer {
namespace {

constexpr int kLarge = 256;  // numbers of a block of the "K" types

// Twice the numbers of e2m1, and the numbers of IQ4_NL and IQ4_XS.
constexpr int8_t kDoubledFp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr int8_t kUneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};

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

// Calls f(i, code) for 32 codes: the lower halves of 16 bytes, then the upper ones.
template <class F>
void for_halves(const uint8_t* bytes, const F& f) {
  for (int i = 0; i < 16; ++i) {
    f(i, bytes[i] & 15);
    f(i + 16, bytes[i] >> 4);
  }
}

void read_q4_0(const uint8_t* block, float* y) {
  const float scale = half_at(block);
  for_halves(block + 2, [&](int i, int code) { y[i] = static_cast<float>(code - 8) * scale; });
}
void read_q4_1(const uint8_t* block, float* y) {
  const float scale = half_at(block), least = half_at(block + 2);
  for_halves(block + 4, [&](int i, int code) {
    const float part = static_cast<float>(code) * scale;
    y[i] = part + least;
  });
}
// The fifth bit of code i is bit i of a word before the codes.
int fifth_bit(uint32_t word, int i) { return static_cast<int>(word >> i & 1) << 4; }
void read_q5_0(const uint8_t* block, float* y) {
  const float scale = half_at(block);
  const auto bits = integer_at<uint32_t>(block + 2);
  for_halves(block + 6, [&](int i, int code) {
    y[i] = static_cast<float>((code | fifth_bit(bits, i)) - 16) * scale;
  });
}
void read_q5_1(const uint8_t* block, float* y) {
  const float scale = half_at(block), least = half_at(block + 2);
  const auto bits = integer_at<uint32_t>(block + 4);
  for_halves(block + 8, [&](int i, int code) {
    const float part = static_cast<float>(code | fifth_bit(bits, i)) * scale;
    y[i] = part + least;
  });
}
void read_q8_0(const uint8_t* block, float* y) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i) {
    y[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * scale;
  }
}
void read_iq4_nl(const uint8_t* block, float* y) {
  const float scale = half_at(block);
  for_halves(block + 2, [&](int i, int code) { y[i] = scale * static_cast<float>(kUneven[code]); });
}
// The scale is a power of two, by its exponent, for numbers that are twice as large; 255 is NaN.
void read_mxfp4(const uint8_t* block, float* y) {
  uint32_t bits = static_cast<uint32_t>(block[0] - 1) << 23;
  if (block[0] < 2) bits = uint32_t{0x00200000} << block[0];
  if (block[0] == 255) bits = 0x7fc00000;
  const auto scale = std::bit_cast<float>(bits);
  for_halves(block + 1,
             [&](int i, int code) { y[i] = scale * static_cast<float>(kDoubledFp4[code]); });
}

void read_q2_k(const uint8_t* block, float* y) {
  const uint8_t *const scales = block, *codes = block + 16;
  const float scale = half_at(block + 80), of_minima = half_at(block + 82);
  for (int i = 0; i < kLarge; ++i) {
    const uint8_t both = scales[i / 16];
    const int code = codes[i / 128 * 32 + i % 32] >> 2 * (i % 128 / 32) & 3;
    const float d = scale * static_cast<float>(both & 15);
    const float m = of_minima * static_cast<float>(both >> 4);
    const float part = d * static_cast<float>(code);
    y[i] = part - m;
  }
}

void read_q3_k(const uint8_t* block, float* y) {
  const uint8_t *const high = block, *codes = block + 32, *packed = block + 96;
  const float scale = half_at(block + 108);
  for (int i = 0; i < kLarge; ++i) {
    const int group = i / 16;
    const int low_bits = packed[group % 8] >> (group < 8 ? 0 : 4) & 15;
    const int high_bits = packed[8 + group % 4] >> 2 * (group / 4) & 3;
    const float d = scale * static_cast<float>((low_bits | high_bits << 4) - 32);
    const int low = codes[i / 128 * 32 + i % 32] >> 2 * (i % 128 / 32) & 3;
    const bool is_high = (high[i % 32] >> (i / 32) & 1) != 0;
    y[i] = d * static_cast<float>(low - (is_high ? 0 : 4));
  }
}

// The scale and the minimum of one of the eight groups of Q4_K and Q5_K, 6 bits each.
struct GroupOfK {
  int scale, minimum;
};
GroupOfK group_of_k(const uint8_t* packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  return {(packed[group + 4] & 15) | packed[group - 4] >> 6 << 4,
          packed[group + 4] >> 4 | packed[group] >> 6 << 4};
}
// Q4_K, and with the fifth bits of the codes Q5_K.
void read_four_or_five(const uint8_t* block, const uint8_t* codes, const uint8_t* fifth, float* y) {
  const float scale = half_at(block), of_minima = half_at(block + 2);
  for (int group = 0; group < 8; ++group) {
    const auto [group_scale, minimum] = group_of_k(block + 4, group);
    const float d = scale * static_cast<float>(group_scale);
    const float m = of_minima * static_cast<float>(minimum);
    for (int i = 0; i < 32; ++i) {
      int code = codes[group / 2 * 32 + i] >> (group % 2 * 4) & 15;
      if (fifth != nullptr) code |= (fifth[i] >> group & 1) << 4;
      const float part = d * static_cast<float>(code);
      y[group * 32 + i] = part - m;
    }
  }
}
void read_q4_k(const uint8_t* block, float* y) { read_four_or_five(block, block + 16, nullptr, y); }
void read_q5_k(const uint8_t* block, float* y) {
  read_four_or_five(block, block + 48, block + 16, y);
}

void read_q6_k(const uint8_t* block, float* y) {
  const uint8_t *const low = block, *high = block + 128, *scales = block + 192;
  const float scale = half_at(block + 208);
  for (int i = 0; i < kLarge; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, at = i % 32;
    const int four = low[half * 64 + quarter % 2 * 32 + at] >> quarter / 2 * 4 & 15;
    const int two = high[half * 32 + at] >> 2 * quarter & 3;
    const float d = scale * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
    y[i] = d * static_cast<float>((four | two << 4) - 32);
  }
}

void read_iq4_xs(const uint8_t* block, float* y) {
  const float scale = half_at(block);
  const auto high = integer_at<uint16_t>(block + 2);
  for (int group = 0; group < 8; ++group) {
    const int low = block[4 + group / 2] >> group % 2 * 4 & 15;
    const float d = scale * static_cast<float>((low | (high >> 2 * group & 3) << 4) - 32);
    for_halves(block + 8 + group * 16,
               [&](int i, int code) { y[group * 32 + i] = d * static_cast<float>(kUneven[code]); });
  }
}

template <void (*read)(const uint8_t*, float*), int kNumbers, int kBytes>
void read_blocks(const std::byte* blocks, int64_t count, float* numbers) {
  const auto* at = reinterpret_cast<const uint8_t*>(blocks);
  for (int64_t i = 0; i < count; ++i) read(at + i * kBytes, numbers + i * kNumbers);
}

struct BlockType {
  std::string_view name;
  ReadBlocks read;
};
constexpr BlockType kBlockTypes[] = {
    {"Q4_0", read_blocks<read_q4_0, 32, 18>},     {"Q4_1", read_blocks<read_q4_1, 32, 20>},
    {"Q5_0", read_blocks<read_q5_0, 32, 22>},     {"Q5_1", read_blocks<read_q5_1, 32, 24>},
    {"Q8_0", read_blocks<read_q8_0, 32, 34>},     {"Q2_K", read_blocks<read_q2_k, 256, 84>},
    {"Q3_K", read_blocks<read_q3_k, 256, 110>},   {"Q4_K", read_blocks<read_q4_k, 256, 144>},
    {"Q5_K", read_blocks<read_q5_k, 256, 176>},   {"Q6_K", read_blocks<read_q6_k, 256, 210>},
    {"IQ4_NL", read_blocks<read_iq4_nl, 32, 18>}, {"IQ4_XS", read_blocks<read_iq4_xs, 256, 136>},
    {"MXFP4", read_blocks<read_mxfp4, 32, 17>},
};

}  // namespace

ReadBlocks find_block_reader(std::string_view type) {
  const auto* const found = std::ranges::find(kBlockTypes, type, &BlockType::name);
  return found == std::end(kBlockTypes) ? nullptr : found->read;
}

std::string known_block_types() {
  std::string names;
  for (const BlockType& type : kBlockTypes) {
    names.append(names.empty() ? "" : ", ").append(type.name);
  }
  return names;
}

}  // namespace pagedinfer
