// A running 64-bit hash that tells files apart. It is not cryptographic: two files with the same
// hash can be made on purpose.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace pagedinfer {

// Adds a word to a hash. Bijective in `hash` for a fixed `word`, and vice versa.
inline uint64_t hash_word(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 32);
}

// Adds `bytes` to a hash. Their number is hashed too, so "ab", "c" and "a", "bc" differ.
inline uint64_t hash_bytes(uint64_t hash, std::string_view bytes) {
  hash = hash_word(hash, bytes.size());
  for (; !bytes.empty(); bytes.remove_prefix(bytes.size() < 8 ? bytes.size() : 8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), bytes.size() < 8 ? bytes.size() : 8);
    hash = hash_word(hash, word);
  }
  return hash;
}

}  // namespace pagedinfer
