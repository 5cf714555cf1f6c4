#include "text/bpe/word_cache.h"

#include <algorithm>
#include <functional>

namespace pagedinfer {

WordCache::Place& WordCache::place_of(std::string_view word) {
  return places_[std::hash<std::string_view>()(word) & (places_.size() - 1)];
}

bool WordCache::find(std::string_view word, std::vector<TokenId>& ids) {
  if (word.empty() || word.size() > kMaxWord) return false;
  Place& place = place_of(word);
  if (place.taken.exchange(true, std::memory_order_acquire)) return false;
  const bool found = word == std::string_view(place.word.data(), place.word_size);
  if (found) ids.insert(ids.end(), place.tokens.begin(), place.tokens.begin() + place.num_tokens);
  place.taken.store(false, std::memory_order_release);
  return found;
}

void WordCache::put(std::string_view word, std::span<const TokenId> ids) {
  if (word.empty() || word.size() > kMaxWord || ids.size() > kMaxTokens) return;
  Place& place = place_of(word);
  if (place.taken.exchange(true, std::memory_order_acquire)) return;
  place.word_size = static_cast<uint8_t>(word.size());
  place.num_tokens = static_cast<uint8_t>(ids.size());
  std::copy(word.begin(), word.end(), place.word.begin());
  std::copy(ids.begin(), ids.end(), place.tokens.begin());
  place.taken.store(false, std::memory_order_release);
}

}  // namespace pagedinfer
