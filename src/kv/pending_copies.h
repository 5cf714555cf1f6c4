#pragma once

#include <map>
#include <vector>

#include "core/batch.h"
#include "kv/block_allocator.h"

namespace pagedinfer {

// Copies between blocks that wait for the next step. Each holds its source, so that the block is
// not handed out, and written, before the copy is taken.
class PendingCopies {
 public:
  // `owner` holds the sources; no lease has it.
  PendingCopies(BlockAllocator& blocks, int block_size, OwnerId owner)
      : blocks_(blocks), block_size_(block_size), owner_(owner) {}

  // Source and destination are first positions of blocks. A source that waits for a copy itself
  // stands for the source of that one. REQUIRES: both are used, no other copy has the destination.
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
