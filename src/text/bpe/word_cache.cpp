#include "text/bpe/word_cache.h"

#include <algorithm>
#include <functional>

namespace pagedinfer {

WordCache::Entry& WordCache::entry_of(std::string_view word) {
  return entries_[std::hash<std::string_view>()(word) & (entries_.size() - 1)];
}

bool WordCache::find(std::string_view word, std::vector<TokenId>& ids) {
  if (word.empty() || word.size() > kMaxWord) return false;
  Entry& entry = entry_of(word);
  if (entry.taken.exchange(true, std::memory_order_acquire)) return false;
  const bool found = word == std::string_view(entry.word.data(), entry.word_size);
  if (found) ids.insert(ids.end(), entry.tokens.begin(), entry.tokens.begin() + entry.num_tokens);
  entry.taken.store(false, std::memory_order_release);
  return found;
}

void WordCache::put(std::string_view word, std::span<const TokenId> ids) {
  if (word.empty() || word.size() > kMaxWord || ids.size() > kMaxTokens) return;
  Entry& entry = entry_of(word);
  if (entry.taken.exchange(true, std::memory_order_acquire)) return;
  entry.word_size = static_cast<uint8_t>(word.size());
  entry.num_tokens = static_cast<uint8_t>(ids.size());
  std::copy(word.begin(), word.end(), entry.word.begin());
  std::copy(ids.begin(), ids.end(), entry.tokens.begin());
  entry.taken.store(false, std::memory_order_release);
}

}  // namespace pagedinfer
