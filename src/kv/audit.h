#pragma once

#include "kv/kv_pool.h"

namespace pagedinfer {

// Used blocks whose owners hold no active lease, or whose owners' leases do not list them. `own`
// are no sequences' leases: they list the blocks that the pool holds for itself, such as cached
// blocks kept for reuse. A block's first cache position is its number times `block_size`.
std::vector<BlockId> find_unaccounted(const BlockAllocator& blocks, int block_size,
                                      std::span<const KvLease* const> active,
                                      std::span<const KvLease> own);

// Takes them back from those owners and returns how many blocks that freed.
int reclaim_unaccounted(BlockAllocator& blocks, int block_size,
                        std::span<const KvLease* const> active, std::span<const KvLease> own);

}  // namespace pagedinfer
