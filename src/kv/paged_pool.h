#pragma once

#include "kv/kv_pool.h"
#include "kv/pending_copies.h"
#include "kv/prefix_index.h"

namespace pagedinfer {

// Sequences take blocks of `block_size` positions as they grow, from anywhere in the cache. Several
// leases may hold one block. After fork() they share it until one of them writes to it and gets a
// copy (copy-on-write). A lease also holds the blocks that it finds, which another lease has
// published. The index is one more owner of each findable block. A findable block that no lease
// holds is reusable: when no block is free, the least recently used one is evicted.
class PagedPool final : public KvPool {
 public:
  // Throws Error if there is no block, or more positions than cache positions can number.
  // `hash_mask`: as PrefixIndex.
  PagedPool(int64_t num_blocks, int block_size, uint64_t hash_mask = ~uint64_t{0});

  int block_size() const override { return block_size_; }
  std::optional<KvLease> open(std::span<const TokenId> tokens, int reserve,
                              ShareScope scope) override;
  int num_findable(const KvLease& lease, std::span<const TokenId> tokens) const override;
  void adopt(KvLease& lease, std::span<const TokenId> tokens) override;
  std::optional<KvLease> fork(const KvLease& lease, int num_tokens) override;
  bool grow(KvLease& lease, int begin, int end) override;
  void publish(KvLease& lease, std::span<const TokenId> tokens,
               std::vector<PublishedBlock>& published) override;
  void withdraw(std::span<const PublishedBlock> published) override;
  std::vector<KvCopy> take_copies() override { return copies_.take(); }
  void close(KvLease& lease) override;
  std::optional<int64_t> free_tokens() const override;
  KvStats stats() const override;
  int64_t num_held(std::span<const HeldTokens> tokens) const override;
  int num_leaked(std::span<const KvLease* const> active) const override;
  int reclaim(std::span<const KvLease* const> active) override;
  void check_invariants() const override;

 private:
  static constexpr OwnerId kOwnerOfSources = 0, kOwnerOfIndex = 1;

  BlockId block(const KvLease& lease, int i) const { return lease.block_table[i] / block_size_; }
  int blocks_for(int num_positions) const {
    return num_positions / block_size_ + (num_positions % block_size_ != 0);
  }
  int num_available() const { return blocks_.stats().free + index_.num_idle(); }
  int num_leases(BlockId block) const;  // the number of leases that hold the block
  std::vector<BlockId> find_blocks(const KvLease& lease, std::span<const TokenId> tokens) const;
  std::vector<BlockId> take(int num_blocks, OwnerId owner);
  void append(KvLease& lease, BlockId block);
  void hold(const KvLease& lease, BlockId block);
  void append_shared(KvLease& lease, BlockId block);
  void exchange(KvLease& lease, int i, BlockId block);
  void drop(const KvLease& lease, BlockId block);
  void make_reusable(BlockId block);
  std::vector<KvLease> own_leases() const;

  int block_size_;
  BlockAllocator blocks_;
  PrefixIndex index_;
  PendingCopies copies_{blocks_, block_size_, kOwnerOfSources};
  OwnerId next_owner_ = kOwnerOfIndex + 1;
  int64_t num_listed_ = 0;  // entries of the block tables of all leases
  int64_t num_leased_ = 0;  // blocks that leases hold
  int64_t num_evicted_ = 0;
  mutable std::vector<int> held_in_block_;  // of num_held(); all 0 between calls
};

}  // namespace pagedinfer
