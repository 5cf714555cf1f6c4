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

// A direct-mapped cache of the tokens of short words, which may drop an entry at any time. Several
// threads may use it at once, and none ever waits: an entry in use by another thread counts as
// absent.
class WordCache {
 public:
  static constexpr size_t kMaxWord = 28, kMaxTokens = 8;

  // REQUIRES: `num_entries` is a power of two.
  explicit WordCache(size_t num_entries) : entries_(num_entries) {}

  // Appends the tokens of `word` and returns true if it is cached.
  bool find(std::string_view word, std::vector<TokenId>& ids);
  void put(std::string_view word, std::span<const TokenId> ids);

 private:
  struct alignas(64) Entry {
    std::atomic<bool> taken = false;  // a lock for the other members
    uint8_t word_size = 0;
    uint8_t num_tokens = 0;
    std::array<char, kMaxWord> word = {};
    std::array<TokenId, kMaxTokens> tokens = {};
  };

  Entry& entry_of(std::string_view word);

  std::vector<Entry> entries_;
};

}  // namespace pagedinfer
