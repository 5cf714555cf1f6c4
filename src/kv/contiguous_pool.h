#pragma once

#include "kv/kv_pool.h"

namespace pagedinfer {

// Every sequence gets a reservation: one run of max_model_len positions, however many it will
// use. The baseline that paging is measured against: the unused tail of each reservation is lost
// until the sequence ends.
class ContiguousPool final : public KvPool {
 public:
  // Makes floor(num_positions / max_model_len) reservations. Throws Error if that is none, or
  // more than cache positions can number.
  ContiguousPool(int64_t num_positions, int max_model_len);

  int block_size() const override { return max_model_len_; }
  std::optional<KvLease> open(std::span<const TokenId> tokens, int reserve) override;
  bool grow(KvLease& lease, int num_positions) override;
  void close(KvLease& lease) override;
  std::optional<int64_t> free_tokens() const override { return std::nullopt; }
  KvStats stats() const override;
  int num_leaked(std::span<const KvLease* const> active) const override;
  int reclaim(std::span<const KvLease* const> active) override;
  void check_invariants() const override { reservations_.check_invariants(); }

 private:
  int max_model_len_;
  BlockAllocator reservations_;
  OwnerId next_owner_ = 0;
};

}  // namespace pagedinfer
