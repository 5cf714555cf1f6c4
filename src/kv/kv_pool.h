// Which cache positions belong to which sequence. Pure bookkeeping: no device memory, no
// requests, no model. The device's buffers are allocated by Ops and indexed by cache position.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/request.h"
#include "kv/block_allocator.h"

namespace pagedinfer {

// A sequence's claim on the cache. Its position p lives in cache position (slot)
//   block_table[p / block_size] + p % block_size.
struct KvLease {
  OwnerId owner = kNobody;
  std::vector<int32_t> block_table = {};  // first cache position of each block

  int32_t slot(int position, int block_size) const {
    return block_table[position / block_size] + position % block_size;
  }
};

struct KvStats {
  int64_t positions_total = 0;
  int64_t positions_leased = 0;
  double utilization() const {
    return positions_total == 0 ? 0.0 : static_cast<double>(positions_leased) / positions_total;
  }
};

class KvPool {
 public:
  virtual ~KvPool() = default;

  // Positions per block. In a pool of reservations a block is a whole reservation.
  virtual int block_size() const = 0;

  // Leases room for all of `tokens`, such that at least `reserve` positions stay free for the
  // growth of others, in a pool where sequences grow. nullopt = no room now, and nothing has
  // changed.
  [[nodiscard]] virtual std::optional<KvLease> open(std::span<const TokenId> tokens,
                                                    int reserve) = 0;

  // Makes positions [0, num_positions) exist. On false nothing has changed.
  [[nodiscard]] virtual bool grow(KvLease& lease, int num_positions) = 0;

  // Ends the lease and empties it.
  virtual void close(KvLease& lease) = 0;

  // Tokens that fit in what is free. nullopt where only the number of reservations counts.
  virtual std::optional<int64_t> free_tokens() const = 0;

  virtual KvStats stats() const = 0;  // constant time

  // Blocks that the active leases do not account for. 0, or there is a leak.
  virtual int num_leaked(std::span<const KvLease* const> active) const = 0;

  // Frees them and returns how many.
  virtual int reclaim(std::span<const KvLease* const> active) = 0;

  // Aborts if the bookkeeping contradicts itself. For tests and debug runs.
  virtual void check_invariants() const = 0;
};

}  // namespace pagedinfer
