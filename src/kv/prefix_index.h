#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/request.h"
#include "kv/block_allocator.h"

namespace pagedinfer {

constexpr BlockId kNoBlock = -1;

// Finds full blocks by their tokens. The key of a block is its own tokens and the block before it,
// its parent, so that a chain of blocks stands for a prefix. Chains of different scopes are kept
// apart. A known block is *idle* while no sequence holds it.
//
// Invariant: the parent of a known block is known, and becomes idle no earlier than the block. So
// the least recently used idle block is the parent of no known block, and may be forgotten first.
class PrefixIndex {
 public:
  // A narrow `hash_mask` makes hashes collide, for tests.
  PrefixIndex(int num_blocks, int block_size, uint64_t hash_mask = ~uint64_t{0});

  // The block of `scope` with these tokens after `parent` (kNoBlock: at the beginning), or
  // kNoBlock. Constant time per token.
  BlockId find(int64_t scope, BlockId parent, std::span<const TokenId> tokens) const;

  // Makes a block known, not idle, and returns its serial number. No other insert() returns this
  // number. REQUIRES: `tokens` fill a block, find() does not find them, the block is not known.
  int64_t insert(int64_t scope, BlockId parent, BlockId block, std::span<const TokenId> tokens);

  // Forgets a block. REQUIRES: it is known, and not the parent of a known block.
  void erase(BlockId block);

  // REQUIRES: the block is known. set_idle() wants one that is not idle, set_busy() one that is.
  void set_idle(BlockId block);
  void set_busy(BlockId block);

  bool contains(BlockId block) const { return nodes_[block].serial != 0; }
  int64_t serial(BlockId block) const { return nodes_[block].serial; }  // 0: not known
  int64_t scope(BlockId block) const { return nodes_[block].scope; }
  bool is_idle(BlockId block) const { return nodes_[block].is_idle; }
  int num_idle() const { return num_idle_; }
  BlockId next_to_evict() const { return first_idle_; }  // kNoBlock: none is idle
  std::vector<BlockId> blocks() const;                   // the known ones, ascending

  // Aborts if the bookkeeping contradicts itself.
  void check_invariants() const;

 private:
  struct Node {
    int64_t serial = 0, scope = 0;
    uint64_t hash = 0;
    BlockId parent = kNoBlock;
    int num_children = 0;
    BlockId next_in_bucket = kNoBlock;
    BlockId idle_before = kNoBlock, idle_after = kNoBlock;
    bool is_idle = false;
  };

  uint64_t hash_of(int64_t scope, BlockId parent, std::span<const TokenId> tokens) const;
  BlockId& bucket(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  std::span<const TokenId> tokens_of(BlockId block) const {
    return {&tokens_[static_cast<size_t>(block) * block_size_], block_size_};
  }

  const size_t block_size_;
  const uint64_t hash_mask_;
  std::vector<Node> nodes_;            // of each block
  std::unique_ptr<TokenId[]> tokens_;  // of each block
  std::vector<BlockId> buckets_;       // a hash table whose entries are linked by next_in_bucket
  BlockId first_idle_ = kNoBlock, last_idle_ = kNoBlock;  // the least and most recently used
  int num_idle_ = 0;
  int64_t next_serial_ = 1;
};

}  // namespace pagedinfer
