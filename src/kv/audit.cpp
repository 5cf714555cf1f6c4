#include "kv/audit.h"

#include <algorithm>
#include <iterator>

namespace pagedinfer {
namespace {

std::vector<OwnerId> owners_of(std::span<const KvLease* const> leases,
                               std::span<const KvLease> own) {
  std::vector<OwnerId> owners;
  for (const KvLease& lease : own) owners.push_back(lease.owner);
  for (const KvLease* lease : leases) owners.push_back(lease->owner);
  return owners;
}

std::vector<BlockId> find_unlisted(const BlockAllocator& blocks, int block_size,
                                   std::span<const KvLease* const> active,
                                   std::span<const KvLease> own) {
  std::vector<BlockId> listed;
  const auto add = [&](const KvLease& lease) {
    for (int32_t first : lease.block_table) listed.push_back(first / block_size);
  };
  for (const KvLease* lease : active) add(*lease);
  for (const KvLease& lease : own) add(lease);
  return blocks.find_unreferenced(listed);
}

}  // namespace

std::vector<BlockId> find_unaccounted(const BlockAllocator& blocks, int block_size,
                                      std::span<const KvLease* const> active,
                                      std::span<const KvLease> own) {
  const std::vector<BlockId> leaked = blocks.find_leaked(owners_of(active, own));
  const std::vector<BlockId> unlisted = find_unlisted(blocks, block_size, active, own);
  std::vector<BlockId> all;
  std::ranges::set_union(leaked, unlisted, std::back_inserter(all));
  return all;
}

int reclaim_unaccounted(BlockAllocator& blocks, int block_size,
                        std::span<const KvLease* const> active, std::span<const KvLease> own) {
  const std::vector<BlockId> unlisted = find_unlisted(blocks, block_size, active, own);
  const int free_before = blocks.stats().free;
  for (BlockId block : unlisted) {
    for (OwnerId owner : blocks.owners(block)) blocks.release(block, owner);
  }
  blocks.reclaim(owners_of(active, own));
  return blocks.stats().free - free_before;
}

}  // namespace pagedinfer
