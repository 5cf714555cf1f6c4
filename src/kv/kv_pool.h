// Which cache positions belong to which sequence. Pure bookkeeping: no device memory, no
// requests, no model. The device's buffers are allocated by Ops and indexed by cache position.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/batch.h"
#include "core/request.h"
#include "kv/block_allocator.h"

namespace pagedinfer {

// A sequence's claim on the cache. Its position p lives in cache position (slot)
//   block_table[p / block_size] + p % block_size.
struct KvLease {
  OwnerId owner = kNoOwner;
  std::vector<int32_t> block_table = {};  // first cache position of each block
  int num_cached = 0;                     // leading tokens that open() found in the cache
  int num_published = 0;                  // leading blocks that open() can find

  int32_t slot(int position, int block_size) const {
    return block_table[position / block_size] + position % block_size;
  }
};

struct KvStats {
  int64_t positions_total = 0;
  int64_t positions_leased = 0;
  int64_t num_shared_blocks = 0;  // listed by more than one lease
  double utilization() const {
    return positions_total == 0 ? 0.0 : static_cast<double>(positions_leased) / positions_total;
  }
};

class KvPool {
 public:
  virtual ~KvPool() = default;

  // Positions per block. In a pool of reservations a block is a whole reservation.
  virtual int block_size() const = 0;

  // Leases room for all of `tokens`. The first lease.num_cached of them, never all, are in the
  // cache already. In a pool where sequences grow at least `reserve` positions stay free for the
  // growth of others. nullopt = no room now, and nothing has changed.
  [[nodiscard]] virtual std::optional<KvLease> open(std::span<const TokenId> tokens,
                                                    int reserve) = 0;

  // A second lease on the first `num_tokens` tokens, which the steps launched so far put into the
  // cache. nullopt = no room now, and nothing has changed.
  [[nodiscard]] virtual std::optional<KvLease> fork(const KvLease& lease, int num_tokens) = 0;

  // Makes positions [begin, end) exist and be writable by this lease alone. On false nothing has
  // changed. REQUIRES: positions [0, begin) exist.
  [[nodiscard]] virtual bool grow(KvLease& lease, int begin, int end) = 0;

  // States that the cache holds exactly these tokens at the lease's first positions, so that
  // open() may find them.
  virtual void publish(KvLease& lease, std::span<const TokenId> tokens) = 0;

  // The copies that fork() and grow() need, as Batch::copies, since the last call: to be carried
  // out before the next step that writes to the cache. A pool needs them in fork() or in grow(),
  // not in both.
  virtual std::vector<KvCopy> take_copies() = 0;

  // Ends the lease and empties it.
  virtual void close(KvLease& lease) = 0;

  // Tokens that fit in what is free. nullopt where only the number of reservations counts.
  virtual std::optional<int64_t> free_tokens() const = 0;

  virtual KvStats stats() const = 0;  // constant time

  // Used blocks that neither the active leases nor the pool itself account for. 0, or there is a
  // leak.
  virtual int num_leaked(std::span<const KvLease* const> active) const = 0;

  // Frees them and returns how many.
  virtual int reclaim(std::span<const KvLease* const> active) = 0;

  // Aborts if the bookkeeping contradicts itself. For tests and debug runs.
  virtual void check_invariants() const = 0;
};

}  // namespace pagedinfer
