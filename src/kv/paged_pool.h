#pragma once

#include "kv/kv_pool.h"
#include "kv/pending_copies.h"

namespace pagedinfer {

// Sequences take blocks of `block_size` positions as they grow, from anywhere in the cache. Nothing
// is shared yet: a fork takes blocks of its own and has the tokens copied.
class PagedPool final : public KvPool {
 public:
  // Throws Error if there is no block, or more positions than cache positions can number.
  PagedPool(int64_t num_blocks, int block_size);

  int block_size() const override { return block_size_; }
  std::optional<KvLease> open(std::span<const TokenId> tokens, int reserve) override;
  std::optional<KvLease> fork(const KvLease& lease, int num_tokens) override;
  bool grow(KvLease& lease, int begin, int end) override;
  void publish(KvLease&, std::span<const TokenId>) override {}
  std::vector<KvCopy> take_copies() override { return copies_.take(); }
  void close(KvLease& lease) override;
  std::optional<int64_t> free_tokens() const override;
  KvStats stats() const override;
  int num_leaked(std::span<const KvLease* const> active) const override;
  int reclaim(std::span<const KvLease* const> active) override;
  void check_invariants() const override { blocks_.check_invariants(); }

 private:
  static constexpr OwnerId kOwnerOfSources = 0;

  KvLease sources() const;  // what the pool holds for itself
  int blocks_for(int num_positions) const {
    return num_positions / block_size_ + (num_positions % block_size_ != 0);
  }

  int block_size_;
  BlockAllocator blocks_;
  PendingCopies copies_{blocks_, block_size_, kOwnerOfSources};
  OwnerId next_owner_ = kOwnerOfSources + 1;
};

}  // namespace pagedinfer
