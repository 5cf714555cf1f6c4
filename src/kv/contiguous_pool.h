#pragma once

#include "kv/kv_pool.h"
#include "kv/pending_copies.h"

namespace pagedinfer {

// Gives each sequence a reservation: one run of max_model_len positions, however many it will use.
// This is the baseline for measuring the gain of paging: nothing is shared, and the unused tail of
// a reservation is lost until its sequence ends.
class ContiguousPool final : public KvPool {
 public:
  // Makes floor(num_positions / max_model_len) reservations. Throws Error if this number is 0, or
  // if 32 bits cannot number the cache positions.
  ContiguousPool(int64_t num_positions, int max_model_len);

  int block_size() const override { return max_model_len_; }
  std::optional<KvLease> open(std::span<const TokenId> tokens, int reserve,
                              ShareScope scope) override;
  int num_findable(const KvLease&, std::span<const TokenId>) const override { return 0; }
  void adopt(KvLease& lease, std::span<const TokenId> tokens) override;
  std::optional<KvLease> fork(const KvLease& lease, int num_tokens) override;
  bool grow(KvLease& lease, int begin, int end) override;
  void publish(KvLease&, std::span<const TokenId>, std::vector<PublishedBlock>&) override {}
  void withdraw(std::span<const PublishedBlock>) override {}
  std::vector<KvCopy> take_copies() override { return copies_.take(); }
  void close(KvLease& lease) override;
  std::optional<int64_t> free_tokens() const override { return std::nullopt; }
  KvStats stats() const override;
  int64_t num_held(std::span<const HeldTokens> tokens) const override;
  int num_leaked(std::span<const KvLease* const> active) const override;
  int reclaim(std::span<const KvLease* const> active) override;
  void check_invariants() const override { reservations_.check_invariants(); }

 private:
  static constexpr OwnerId kOwnerOfSources = 0;

  std::optional<KvLease> take_reservation();
  KvLease sources() const;  // what the pool holds for itself
  int max_model_len_;
  BlockAllocator reservations_;
  PendingCopies copies_{reservations_, max_model_len_, kOwnerOfSources};
  OwnerId next_owner_ = kOwnerOfSources + 1;
};

}  // namespace pagedinfer
