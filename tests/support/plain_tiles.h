// Plain memory in place of AMX's tiles, so that kernels written with them run on every machine.
#pragma once

#include <doctest/doctest.h>

#include <bit>
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

// Multiplied as bytes with a sign. A row of the right tile belongs to four columns of the left one.
class PlainInt8Tiles : public PlainTiles {
 public:
  template <int kSums, int kLeft, int kRight>
  static void multiply_int8() {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) {
        auto sum = std::bit_cast<int32_t>(tile[kSums][i][j]);
        for (int four = 0; four < 16; ++four) {
          for (int b = 0; b < 4; ++b) {
            sum += static_cast<int8_t>(tile[kLeft][i][four] >> 8 * b) *
                   static_cast<int8_t>(tile[kRight][four][j] >> 8 * b);
          }
        }
        tile[kSums][i][j] = std::bit_cast<uint32_t>(sum);
      }
    }
  }
};

}  // namespace pagedinfer
