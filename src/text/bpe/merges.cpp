#include "text/bpe/merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "core/check.h"

namespace pagedinfer {
namespace {

constexpr size_t kShort = 32;  // symbols up to which scanning all pairs is faster than a heap

constexpr MergeTable::Merge kApart = {UINT32_MAX, -1};

int64_t merge_short(const MergeTable& merges, std::vector<TokenId>& symbols) {
  int64_t looked = 0;
  const auto pair_at = [&](size_t i) {
    ++looked;
    const MergeTable::Merge* merge = merges.find(symbols[i], symbols[i + 1]);
    return merge == nullptr ? kApart : *merge;
  };
  size_t n = symbols.size();
  std::array<MergeTable::Merge, kShort> pairs;  // pairs[i] merges symbols i and i + 1
  for (size_t i = 0; i + 1 < n; ++i) pairs[i] = pair_at(i);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].merged < 0) break;
    symbols[best] = pairs[best].merged;
    --n;
    for (size_t i = best + 1; i < n; ++i) symbols[i] = symbols[i + 1];
    for (size_t i = best + 1; i + 1 < n; ++i) pairs[i] = pairs[i + 1];
    if (best > 0) pairs[best - 1] = pair_at(best - 1);
    if (best + 1 < n) pairs[best] = pair_at(best);
  }
  symbols.resize(n);
  return looked;
}

// A linked list of symbols and a heap of pairs. Pairs whose symbols have changed are skipped when
// they are popped.
class LongWord {
 public:
  LongWord(const MergeTable& merges, std::vector<TokenId>& symbols)
      : merges_(merges), symbols_(symbols), links_(symbols.size()) {
    CHECK(symbols.size() < UINT32_MAX);
    const auto n = static_cast<uint32_t>(symbols.size());
    heap_.reserve(n);
    for (uint32_t i = 0; i < n; ++i) links_[i] = {i - 1, i + 1};  // kNone before the first
    links_[n - 1].next = kNone;
    for (uint32_t i = 0; i + 1 < n; ++i) {
      if (const auto* merge = find(i)) heap_.push_back(entry(merge->rank, i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  int64_t run() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const uint64_t top = heap_.back();
      heap_.pop_back();
      const auto at = static_cast<uint32_t>(top);
      if (symbols_[at] < 0 || links_[at].next == kNone) continue;
      const MergeTable::Merge* merge = find(at);
      if (merge == nullptr || entry(merge->rank, at) != top) continue;
      join(at, merge->merged);
    }
    std::erase_if(symbols_, [](TokenId id) { return id < 0; });
    return looked_;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Links {
    uint32_t before, next;
  };

  static uint64_t entry(uint32_t rank, uint32_t at) { return uint64_t{rank} << 32 | at; }

  const MergeTable::Merge* find(uint32_t at) {
    ++looked_;
    return merges_.find(symbols_[at], symbols_[links_[at].next]);
  }

  void offer(uint32_t at) {
    const MergeTable::Merge* merge = find(at);
    if (merge == nullptr) return;
    heap_.push_back(entry(merge->rank, at));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  void join(uint32_t at, TokenId merged) {
    const uint32_t gone = links_[at].next;
    symbols_[at] = merged;
    symbols_[gone] = -1;
    const uint32_t next = links_[at].next = links_[gone].next;
    if (next != kNone) {
      links_[next].before = at;
      offer(at);
    }
    if (links_[at].before != kNone) offer(links_[at].before);
  }

  const MergeTable& merges_;
  std::vector<TokenId>& symbols_;  // -1 = merged into one before it
  std::vector<Links> links_;
  std::vector<uint64_t> heap_ = {};  // the lowest rank first, then the leftmost
  int64_t looked_ = 0;
};

}  // namespace

MergeTable::MergeTable(size_t expected)
    : slots_(std::bit_ceil(expected * 2 + 2)), mask_(slots_.size() - 1) {}

void MergeTable::add(TokenId left, TokenId right, uint32_t rank, TokenId merged) {
  const uint64_t pair = pair_of(left, right);
  size_t slot = start_of(pair);
  while (slots_[slot].pair != kFree && slots_[slot].pair != pair) slot = (slot + 1) & mask_;
  if (slots_[slot].pair == kFree) CHECK(++used_ * 2 <= slots_.size());
  slots_[slot] = {pair, {rank, merged}};
}

int64_t merge_word(const MergeTable& merges, std::vector<TokenId>& symbols) {
  if (symbols.size() < 2) return 0;
  if (symbols.size() <= kShort) return merge_short(merges, symbols);
  return LongWord(merges, symbols).run();
}

}  // namespace pagedinfer
