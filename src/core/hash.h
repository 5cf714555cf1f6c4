// A running 64-bit hash that tells files apart. It is no defence against somebody who wants two
// of them to look alike.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace pagedinfer {

// One to one in each argument while the other stays.
inline uint64_t hash_word(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 32);
}

// The hash of `bytes` behind what `hash` stands for; where one piece ends is part of it.
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
