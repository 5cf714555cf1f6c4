#include "kv/block_allocator.h"

#include <algorithm>

#include "core/check.h"

namespace pagedinfer {

BlockAllocator::BlockAllocator(int num_blocks) {
  CHECK(num_blocks >= 0);
  first_owner_.assign(num_blocks, kNoOwner);
  free_.reserve(num_blocks);
  for (BlockId block = num_blocks - 1; block >= 0; --block) free_.push_back(block);
}

std::optional<std::vector<BlockId>> BlockAllocator::allocate(int num_blocks, OwnerId owner) {
  CHECK(num_blocks >= 0 && owner >= 0);
  if (num_blocks > static_cast<int>(free_.size())) return std::nullopt;
  std::vector<BlockId> blocks(free_.rbegin(), free_.rbegin() + num_blocks);
  free_.resize(free_.size() - num_blocks);
  for (BlockId block : blocks) first_owner_[block] = owner;
  return blocks;
}

void BlockAllocator::share(BlockId block, OwnerId owner) {
  CHECK(num_refs(block) > 0);
  CHECK(owner >= 0 && !is_held_by(block, owner));
  more_owners_[block].push_back(owner);
}

void BlockAllocator::release(BlockId block, OwnerId owner) {
  CHECK(num_refs(block) > 0);
  CHECK(is_held_by(block, owner));
  const auto shared = more_owners_.find(block);
  if (shared == more_owners_.end()) {
    first_owner_[block] = kNoOwner;
    free_.push_back(block);
    return;
  }
  std::vector<OwnerId>& others = shared->second;
  if (first_owner_[block] == owner) {
    first_owner_[block] = others.back();
    others.pop_back();
  } else {
    std::erase(others, owner);
  }
  if (others.empty()) more_owners_.erase(shared);
}

std::vector<OwnerId> BlockAllocator::owners(BlockId block) const {
  if (num_refs(block) == 0) return {};
  std::vector<OwnerId> owners = {first_owner_[block]};
  if (const auto shared = more_owners_.find(block); shared != more_owners_.end()) {
    owners.insert(owners.end(), shared->second.begin(), shared->second.end());
  }
  return owners;
}

int BlockAllocator::num_refs(BlockId block) const {
  CHECK(block >= 0 && block < stats().total);
  if (first_owner_[block] == kNoOwner) return 0;
  const auto shared = more_owners_.find(block);
  return 1 + (shared == more_owners_.end() ? 0 : static_cast<int>(shared->second.size()));
}

bool BlockAllocator::is_held_by(BlockId block, OwnerId owner) const {
  if (first_owner_[block] == owner) return true;
  const auto shared = more_owners_.find(block);
  return shared != more_owners_.end() &&
         std::ranges::find(shared->second, owner) != shared->second.end();
}

std::vector<BlockId> BlockAllocator::find_leaked(std::span<const OwnerId> active) const {
  std::vector<OwnerId> known(active.begin(), active.end());
  std::ranges::sort(known);
  const auto is_known = [&](OwnerId owner) { return std::ranges::binary_search(known, owner); };
  std::vector<BlockId> leaked;
  for (BlockId block = 0; block < stats().total; ++block) {
    if (!std::ranges::all_of(owners(block), is_known)) leaked.push_back(block);
  }
  return leaked;
}

std::vector<BlockId> BlockAllocator::find_unreferenced(std::span<const BlockId> referenced) const {
  std::vector<bool> is_referenced(first_owner_.size());
  for (BlockId block : referenced) is_referenced.at(block) = true;
  std::vector<BlockId> lost;
  for (BlockId block = 0; block < stats().total; ++block) {
    if (first_owner_[block] != kNoOwner && !is_referenced[block]) lost.push_back(block);
  }
  return lost;
}

int BlockAllocator::reclaim(std::span<const OwnerId> active) {
  const int free_before = stats().free;
  for (BlockId block : find_leaked(active)) {
    for (OwnerId owner : owners(block)) {
      if (std::ranges::find(active, owner) == active.end()) release(block, owner);
    }
  }
  return stats().free - free_before;
}

BlockStats BlockAllocator::stats() const {
  const int total = static_cast<int>(first_owner_.size());
  const int free = static_cast<int>(free_.size());
  return {.total = total, .free = free, .used = total - free};
}

void BlockAllocator::check_invariants() const {
  std::vector<bool> is_free(first_owner_.size());
  for (BlockId block : free_) {
    CHECK(!is_free.at(block));
    is_free[block] = true;
  }
  for (BlockId block = 0; block < stats().total; ++block) {
    CHECK(is_free[block] == (first_owner_[block] == kNoOwner));
  }
  for (const auto& [block, others] : more_owners_) {
    CHECK(!is_free.at(block) && !others.empty());
    std::vector<OwnerId> sorted = owners(block);
    std::ranges::sort(sorted);
    CHECK(sorted.front() >= 0);
    CHECK(std::ranges::adjacent_find(sorted) == sorted.end());  // one reference per owner
  }
}

}  // namespace pagedinfer
