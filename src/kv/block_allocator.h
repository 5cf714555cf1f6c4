// Hands out the numbers of equal blocks and counts who holds them. Knows nothing of tokens,
// sequences or device memory. For one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace pagedinfer {

using BlockId = int32_t;
using OwnerId = int64_t;

constexpr OwnerId kNoOwner = -1;

struct BlockStats {
  int total = 0, free = 0, used = 0;
};

// A block is free, or it has owners, each with one reference. allocate() and release() take
// constant time per block, except that release() searches the owners of a shared block.
//
// Aborts when a block is freed twice, released by an owner that does not hold it, or unknown.
class BlockAllocator {
 public:
  explicit BlockAllocator(int num_blocks);  // 0 = exhausted from the start

  // Returns `num_blocks` blocks with `owner` as their only owner. On nullopt too few blocks are
  // free, and nothing has changed.
  [[nodiscard]] std::optional<std::vector<BlockId>> allocate(int num_blocks, OwnerId owner);

  // Adds an owner. REQUIRES: the block is used, and not yet by `owner`.
  void share(BlockId block, OwnerId owner);

  // Removes an owner; the last one frees the block. REQUIRES: `owner` holds it.
  void release(BlockId block, OwnerId owner);

  std::vector<OwnerId> owners(BlockId block) const;
  int num_refs(BlockId block) const;

  // The audit, in ascending order: used blocks with an owner that is not among `active`, and
  // used blocks that `referenced` does not list. Both are empty while nothing leaks.
  std::vector<BlockId> find_leaked(std::span<const OwnerId> active) const;
  std::vector<BlockId> find_unreferenced(std::span<const BlockId> referenced) const;

  // Removes every owner that is not among `active` and returns how many blocks became free.
  int reclaim(std::span<const OwnerId> active);

  BlockStats stats() const;  // constant time
  void check_invariants() const;

 private:
  bool is_held_by(BlockId block, OwnerId owner) const;

  std::vector<OwnerId> first_owner_;                               // of each block; kNoOwner = free
  std::unordered_map<BlockId, std::vector<OwnerId>> more_owners_;  // of the shared ones
  std::vector<BlockId> free_;                                      // last in, first out
};

}  // namespace pagedinfer
