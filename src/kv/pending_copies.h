#pragma once

#include <map>
#include <vector>

#include "core/batch.h"
#include "kv/block_allocator.h"

namespace pagedinfer {

// Copies between blocks that wait for the next step. Each copy owns its source until take(), so
// that no other owner gets the block and overwrites it.
class PendingCopies {
 public:
  // `owner` becomes an owner of the sources. REQUIRES: it is the owner of no lease.
  PendingCopies(BlockAllocator& blocks, int block_size, OwnerId owner)
      : blocks_(blocks), block_size_(block_size), owner_(owner) {}

  // Source and destination are first positions of blocks. If the source is the destination of a
  // waiting copy, that copy's source is taken instead. REQUIRES: both blocks are used, and no other
  // copy has this destination.
  void add(KvCopy copy);

  // Forgets the copy to `destination`, if there is one.
  void drop(int32_t destination);

  std::vector<KvCopy> take();

  std::vector<BlockId> sources() const;  // each once
  bool has_source(BlockId block) const { return num_copies_.contains(block); }

 private:
  void release(BlockId source);

  BlockAllocator& blocks_;
  const int block_size_;
  const OwnerId owner_;
  std::map<int32_t, KvCopy> by_destination_;
  std::map<BlockId, int> num_copies_;  // by source
};

}  // namespace pagedinfer
