// A mask says for each token whether it may come next: bit t % 32 of word t / 32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/request.h"

namespace pagedinfer {

// How many words the mask of a vocabulary has.
constexpr int num_mask_words(int num_tokens) { return (num_tokens + 31) / 32; }

inline bool is_allowed(std::span<const uint32_t> mask, TokenId token) {
  return (mask[static_cast<size_t>(token) / 32] >> (static_cast<size_t>(token) % 32) & 1) != 0;
}

inline void set_allowed(std::span<uint32_t> mask, TokenId token, bool allowed) {
  uint32_t& word = mask[static_cast<size_t>(token) / 32];
  const uint32_t bit = 1u << (static_cast<size_t>(token) % 32);
  word = allowed ? word | bit : word & ~bit;
}

}  // namespace pagedinfer
