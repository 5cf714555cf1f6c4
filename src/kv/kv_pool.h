// Which cache positions belong to which sequence. Pure bookkeeping: no device memory, no
// requests, no model. The device's buffers are allocated by Ops and indexed by cache position.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/batch.h"
#include "core/cache_use.h"
#include "core/request.h"
#include "kv/block_allocator.h"

namespace pagedinfer {

// Leases of the same scope find each other's full blocks by the tokens in them. Blocks of kShareAll
// stay findable after their leases have closed, until their room is needed.
using ShareScope = int64_t;
constexpr ShareScope kShareNone = -1;
constexpr ShareScope kShareAll = 0;  // any other scope is a number above 0

// A sequence's claim on the cache. Its position p lives in cache position (slot)
//   block_table[p / block_size] + p % block_size.
struct KvLease {
  OwnerId owner = kNoOwner;
  ShareScope scope = kShareNone;
  std::vector<int32_t> block_table = {};  // first cache position of each block
  int num_cached = 0;     // leading tokens found in the cache: their positions are not written
  int num_published = 0;  // leading blocks that others can find

  int32_t slot(int position, int block_size) const {
    return block_table[position / block_size] + position % block_size;
  }
};

// The first tokens of a lease, which are in the cache.
struct HeldTokens {
  const KvLease* lease;
  int count;
};

// A block that publish() has made findable, and the number of that event.
struct PublishedBlock {
  BlockId block;
  int64_t serial;
};

class KvPool {
 public:
  virtual ~KvPool() = default;

  // Positions per block. In a pool of reservations a block is a whole reservation.
  virtual int block_size() const = 0;

  // Leases room for all of `tokens`. The blocks that the scope knows are shared, and
  // lease.num_cached is the number of leading tokens in them. If the pool's sequences grow, at
  // least `reserve` positions stay free for the growth of others. nullopt = no room now, and
  // nothing has changed.
  [[nodiscard]] virtual std::optional<KvLease> open(std::span<const TokenId> tokens, int reserve,
                                                    ShareScope scope) = 0;

  // The number of leading tokens that are in the cache if the lease adopts the blocks that its
  // scope knows; 0 if the scope knows no block after the ones that the lease has published or
  // adopted. To ask before open(), pass a lease without blocks.
  virtual int num_findable(const KvLease& lease, std::span<const TokenId> tokens) const = 0;

  // Replaces blocks of the lease by equal blocks that the scope knows, and sets lease.num_cached to
  // num_findable(). REQUIRES: num_findable() is not 0, and the lease has room for `tokens`.
  virtual void adopt(KvLease& lease, std::span<const TokenId> tokens) = 0;

  // A second lease on the first `num_tokens` tokens, which the steps launched so far put into the
  // cache. nullopt = no room now, and nothing has changed.
  [[nodiscard]] virtual std::optional<KvLease> fork(const KvLease& lease, int num_tokens) = 0;

  // Makes positions [begin, end) exist and be writable by this lease alone. On false nothing has
  // changed. REQUIRES: positions [0, begin) exist.
  [[nodiscard]] virtual bool grow(KvLease& lease, int begin, int end) = 0;

  // States that the cache holds exactly these tokens at the lease's first positions, at the latest
  // when the step that is being planned writes to the cache. From now on leases of the same scope
  // may find them. Appends the blocks that become findable to `published`. REQUIRES: no token is a
  // placeholder.
  virtual void publish(KvLease& lease, std::span<const TokenId> tokens,
                       std::vector<PublishedBlock>& published) = 0;

  // The step that should have filled these blocks has failed: they can no longer be found.
  // REQUIRES: no lease holds them, and what was published later is withdrawn.
  virtual void withdraw(std::span<const PublishedBlock> published) = 0;

  // Returns the copies that fork() and grow() have needed since the last call, as Batch::copies.
  // The caller carries them out before the next step that writes to the cache. A pool needs copies
  // in fork() or in grow(), not in both.
  virtual std::vector<KvCopy> take_copies() = 0;

  // Ends the lease and empties it.
  virtual void close(KvLease& lease) = 0;

  // The number of tokens that fit in the free and the reusable blocks; nullopt if the pool hands
  // out whole reservations.
  virtual std::optional<int64_t> free_tokens() const = 0;

  virtual KvStats stats() const = 0;  // constant time

  // The number of positions that hold these tokens. Shared positions count once.
  virtual int64_t num_held(std::span<const HeldTokens> tokens) const = 0;

  // The number of used blocks that neither the active leases nor the pool itself account for. Any
  // number but 0 means a leak.
  virtual int num_leaked(std::span<const KvLease* const> active) const = 0;

  // Frees the leaked blocks and returns how many became free.
  virtual int reclaim(std::span<const KvLease* const> active) = 0;

  // Aborts if the bookkeeping contradicts itself. For tests and debug runs.
  virtual void check_invariants() const = 0;
};

}  // namespace pagedinfer
