#pragma once

#include <array>
#include <cstdint>

namespace pagedinfer {

// Philox4x32-10, a function from (counter, key) to 128 random bits (Salmon, Moraes, Dror and
// Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                         std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53} * counter[0], b = uint64_t{0xcd9e8d57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9e3779b9, key[1] + 0xbb67ae85};
  }
  return counter;
}

// The random number of one draw: a multiple of 2^-24 in [0, 1). It depends on the arguments only,
// not on the batch or the step in which the draw happens.
constexpr float uniform(uint64_t key, uint32_t sample, uint32_t position, uint32_t draw) {
  const auto bits = philox({sample, position, draw, 0},
                           {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  return static_cast<float>(bits[0] >> 8) * 0x1p-24f;
}

}  // namespace pagedinfer
