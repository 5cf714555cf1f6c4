// Plain memory in place of AMX's tiles, so that kernels written with them run on every machine.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>

namespace pagedinfer {

// Eight tiles of 16 rows of 64 bytes. A test adds how they are multiplied.
class PlainTiles {
 public:
  PlainTiles() { ++num_configured; }
  ~PlainTiles() { --num_configured; }

  template <int kTile>
  static void zero() {
    REQUIRE(num_configured == 1);
    std::memset(tile[kTile], 0, sizeof tile[kTile]);
  }
  template <int kTile>
  static void load(const void* from, int64_t stride) {
    for (int i = 0; i < 16; ++i) {
      std::memcpy(tile[kTile][i], static_cast<const char*>(from) + i * stride, 64);
    }
  }
  template <int kTile>
  static void load_once(const void* from, int64_t stride) {
    load<kTile>(from, stride);
  }
  template <int kTile>
  static void store(void* to, int64_t stride) {
    for (int i = 0; i < 16; ++i) {
      std::memcpy(static_cast<char*>(to) + i * stride, tile[kTile][i], 64);
    }
  }

 protected:
  static inline uint32_t tile[8][16][16];
  static inline int num_configured = 0;
};

}  // namespace pagedinfer
