#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/request.h"

namespace pagedinfer {

// The tokens of words that came before. Holds a fixed number of short words, a new one in the
// place of an old one; may forget at any time. Several threads may use it at once and none ever
// waits: a place that another thread is at counts as empty.
class WordCache {
 public:
  static constexpr size_t kMaxWord = 28, kMaxTokens = 8;

  // REQUIRES: `places` is a power of two.
  explicit WordCache(size_t places) : places_(places) {}

  // Appends the tokens of `word`, if they are known.
  bool find(std::string_view word, std::vector<TokenId>& ids);
  void put(std::string_view word, std::span<const TokenId> ids);

 private:
  struct alignas(64) Place {
    std::atomic<bool> taken = false;  // by a thread that looks at the rest
    uint8_t word_size = 0;
    uint8_t num_tokens = 0;
    std::array<char, kMaxWord> word = {};
    std::array<TokenId, kMaxTokens> tokens = {};
  };

  Place& place_of(std::string_view word);

  std::vector<Place> places_;
};

}  // namespace pagedinfer
