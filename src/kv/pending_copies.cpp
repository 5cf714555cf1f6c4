#include "kv/pending_copies.h"

#include "core/check.h"

namespace pagedinfer {

void PendingCopies::add(KvCopy copy) {
  if (const auto it = by_destination_.find(copy.source); it != by_destination_.end()) {
    CHECK(copy.count <= it->second.count);
    copy.source = it->second.source;
  }
  CHECK(by_destination_.emplace(copy.destination, copy).second);
  const BlockId source = copy.source / block_size_;
  if (num_copies_[source]++ == 0) blocks_.share(source, owner_);
}

void PendingCopies::drop(int32_t destination) {
  const auto it = by_destination_.find(destination);
  if (it == by_destination_.end()) return;
  release(it->second.source / block_size_);
  by_destination_.erase(it);
}

std::vector<KvCopy> PendingCopies::take() {
  std::vector<KvCopy> copies;
  for (const auto& [destination, copy] : by_destination_) copies.push_back(copy);
  for (const auto& [source, count] : num_copies_) blocks_.release(source, owner_);
  by_destination_.clear();
  num_copies_.clear();
  return copies;
}

std::vector<BlockId> PendingCopies::sources() const {
  std::vector<BlockId> blocks;
  for (const auto& [source, count] : num_copies_) blocks.push_back(source);
  return blocks;
}

void PendingCopies::release(BlockId source) {
  const auto it = num_copies_.find(source);
  if (--it->second > 0) return;
  blocks_.release(source, owner_);
  num_copies_.erase(it);
}

}  // namespace pagedinfer
