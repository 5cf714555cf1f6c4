#pragma once

#include "kv/kv_pool.h"

namespace pagedinfer {

// Returns the used blocks whose owners hold no active lease, or whose owners' leases do not list
// them. The leases in `own` belong to no sequence: they list the blocks that the pool holds for
// itself, such as cached blocks kept for reuse. The first cache position of a block is its number
// times `block_size`.
std::vector<BlockId> find_unaccounted(const BlockAllocator& blocks, int block_size,
                                      std::span<const KvLease* const> active,
                                      std::span<const KvLease> own);

// Releases the blocks that find_unaccounted() returns and returns how many blocks became free.
int reclaim_unaccounted(BlockAllocator& blocks, int block_size,
                        std::span<const KvLease* const> active, std::span<const KvLease> own);

}  // namespace pagedinfer
