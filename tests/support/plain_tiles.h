// Plain memory in place of AMX's tiles, so that kernels written with them run on every machine.
#pragma once

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "ops/cpu/kernels.h"
#include "tests/support/product_reference.h"

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

// Multiplied in bfloat16: per sum one fma chain from +0 over the even and one over the odd columns.
class PlainBf16Tiles : public PlainTiles {
 public:
  template <int kSums, int kLeft, int kRight>
  static void multiply() {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) {
        float chain[2] = {0, 0};
        for (int pair = 0; pair < 16; ++pair) {
          const uint32_t left = tile[kLeft][i][pair], right = tile[kRight][pair][j];
          for (int odd = 0; odd < 2; ++odd) {
            chain[odd] =
                std::fma(from_bf16_bits(static_cast<uint16_t>(left >> 16 * odd)),
                         from_bf16_bits(static_cast<uint16_t>(right >> 16 * odd)), chain[odd]);
          }
        }
        float sum = std::bit_cast<float>(tile[kSums][i][j]);
        sum = sum + (chain[0] + chain[1]);
        tile[kSums][i][j] = std::bit_cast<uint32_t>(sum);
      }
    }
  }
  template <class Vector>
  static void store_rounded(void* to, const Vector& low, const Vector& high) {
    float numbers[32];
    std::memcpy(numbers, &low, 64);
    std::memcpy(numbers + 16, &high, 64);
    kPortableKernels.to_bf16(numbers, static_cast<bf16*>(to), 32);
  }
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
