#pragma once

#include <cstdint>

namespace pagedinfer {

// The hash of bits that tests commit: FNV-1a over words.
struct BitsHash {
  uint64_t value = 0xcbf29ce484222325;
  void add(uint32_t word) { value = (value ^ word) * 0x100000001b3; }
};

}  // namespace pagedinfer
