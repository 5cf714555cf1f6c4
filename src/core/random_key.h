#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/request.h"

namespace pagedinfer {

// The key of a request's random numbers. `origin` is the request's id as JSON text, or "line N" if
// it has none. Two requests with the same seed share their random numbers only if origin and prompt
// are the same too.
//
// A fixed function: its values decide completions. 64-bit words are absorbed one by one, each
// mixed as in splitmix64: the seed, the length of origin, origin in little-endian words padded
// with zero bytes, the number of tokens, the tokens.
constexpr uint64_t random_key(uint64_t seed, std::string_view origin,
                              std::span<const TokenId> prompt) {
  uint64_t state = 0;
  const auto absorb = [&state](uint64_t word) {
    state = (state ^ word) + 0x9e3779b97f4a7c15;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
    state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
    state ^= state >> 31;
  };
  absorb(seed);
  absorb(origin.size());
  for (size_t start = 0; start < origin.size(); start += 8) {
    uint64_t word = 0;
    for (size_t i = start; i < origin.size() && i < start + 8; ++i) {
      word |= uint64_t{static_cast<unsigned char>(origin[i])} << (8 * (i - start));
    }
    absorb(word);
  }
  absorb(prompt.size());
  for (const TokenId token : prompt) absorb(static_cast<uint32_t>(token));
  return state;
}

}  // namespace pagedinfer
